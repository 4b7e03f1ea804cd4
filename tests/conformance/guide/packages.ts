await sandbox.exec("pip install yfinance");     // or from a shell, outside the kernel
const ex = await ctx.runCode("import yfinance; print(yfinance.__version__)");
