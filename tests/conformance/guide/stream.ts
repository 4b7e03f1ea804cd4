const code = await sandbox.execStream(
  "bash -lc 'pip install torch && python train.py'",
  { onStdout: (line) => process.stdout.write(line) },
);
console.log("exited", code);
