ctx.close()
sandbox.kill()
