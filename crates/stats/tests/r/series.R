# Series, and R's autocorrelation at lags 1 to 5 of each: Rscript series.R > series.txt
cat("# ", R.version.string, "; acf at lags 1 to 5: series\n", sep = "")
set.seed(1976)
for (round in 1:30) {
  series <- 1000 + round(50 * as.numeric(arima.sim(list(ar = runif(1, -.9, .95)), sample(10:80, 1))))
  cat(sprintf("%.17g", acf(series, 5, plot = FALSE)$acf[2:6]), ":", series, "\n")
}
