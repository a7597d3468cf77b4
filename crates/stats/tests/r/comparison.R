# Two kinds of runs, and what R's wilcox.test says of them: Rscript comparison.R > comparison.txt
cat("# ", R.version.string, "; base; other; W, p, Hodges-Lehmann estimate, its interval of 95 % (exact ones only)\n", sep = "")
set.seed(1947)
show <- function(base, other, exact) {
  test <- suppressWarnings(wilcox.test(other, base, exact = exact, correct = TRUE, conf.int = exact))
  interval <- if (exact) sprintf("%.17g %.0f %.0f", test$estimate, test$conf.int[1], test$conf.int[2]) else ""
  cat(base, ";", other, ";", sprintf("%.17g %.17g %s", test$statistic, test$p.value, interval), "\n")
}
# Without ties, few runs: R counts the chance out.
for (round in 1:60) {
  sizes <- sample(4:30, 2, TRUE)
  values <- sample(1:5000, sum(sizes))
  other <- seq_len(sizes[2])
  # Even and odd: no value of the one is one of the other.
  show(2 * values[-other], 2 * values[other] * sample(1:2, 1) + sample(c(1, 1001, 6001), 1), TRUE)
}
# With ties, many runs: the normal distribution.
for (round in 1:40) {
  base <- sample(1:sample(c(3, 20, 200), 1), sample(31:80, 1), TRUE)
  other <- sample(1:sample(c(3, 20, 200), 1), sample(31:80, 1), TRUE)
  show(base, other, FALSE)
}
