ctx.run_code("!pip install yfinance")          # IPython magic inside the kernel
ex = ctx.run_code("import yfinance; print(yfinance.__version__)")
