const { id } = await sandbox.snapshot();              // capture warm kernel
const resumed = await Sandbox.create({ fromSnapshot: id });

const child = await sandbox.fork();                    // CoW clone for a speculative branch
