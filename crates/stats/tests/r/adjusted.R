# Samples within a medcouple of +-0.6, and robustbase's fences of each: Rscript adjusted.R > adjusted.txt
# Of 4 k + 1 values its quartiles are order statistics, the same as ours.
suppressMessages(library(robustbase))
set.seed(2008)
cat("# ", R.version.string, ", robustbase ", as.character(packageVersion("robustbase")), "; lower and upper fence: values\n", sep = "")
families <- list(
  function(n) 2 * floor(rexp(n) * 20), function(n) round(rnorm(n) * 100), function(n) round(exp(rnorm(n)) * 30),
  function(n) -round(rgamma(n, 2) * 25), function(n) 1000 + 2 * round(rnorm(n) * 3))
for (round in 1:20) for (family in families) {
  values <- family(4 * sample(5:25, 1) + 1)
  if (abs(mc(values, doReflect = TRUE, doScale = FALSE)) > 0.6) next
  fence <- adjboxStats(values, doReflect = TRUE, doScale = FALSE)$fence
  cat(sprintf("%.17g", fence), ":", values, "\n")
}
