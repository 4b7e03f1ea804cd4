await ctx.close();
await sandbox.kill();
