# Samples with ties, and robustbase's medcouple of each: Rscript medcouple.R > medcouple.txt
# doReflect = TRUE is the mean of the two middle values; FALSE, its default above 100 values, the upper one.
suppressMessages(library(robustbase))
set.seed(2004)
cat("# ", R.version.string, ", robustbase ", as.character(packageVersion("robustbase")), "; medcouple: values\n", sep = "")
families <- list(
  function(n) sample(c(18, 20, 22), n, TRUE, c(.25, .5, .25)),
  function(n) 2 * floor(rexp(n) * runif(1, 1, 20)),
  function(n) round(rnorm(n) * runif(1, 1, 1000)),
  function(n) round(exp(rnorm(n) * runif(1, .3, 4)) * 10),
  function(n) -round(rgamma(n, 2) * 5),
  function(n) round(1000 + 10 * rnorm(n) + 4000 * rbinom(n, 1, .1)),
  function(n) rep(7, n),
  function(n) sample(-2:2, n, TRUE))
for (round in 1:60) for (family in families) {
  values <- family(sample(c(1:9, 10:60, 61:140), 1))
  # unname and 17 digits: a double survives the way.
  cat(sprintf("%.17g:", mc(values, doReflect = TRUE, doScale = FALSE)), sprintf(" %.0f", values), "\n", sep = "")
}
