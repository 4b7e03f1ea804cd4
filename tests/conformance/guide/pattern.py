from pandastack import Sandbox

# One sandbox + one persistent kernel for the whole agent session.
sandbox = Sandbox.create(template="code-interpreter", ttl_seconds=3600)
ctx = sandbox.create_code_context()  # state persists across run_code calls

def run_python(code: str) -> str:
    """The body of your framework's tool. Returns signal to the model."""
    ex = ctx.run_code(code)          # -> Execution
    if ex.error:
        return ex.error              # formatted traceback; the model can fix it
    # ex.png is a base64 PNG when the cell drew a chart — hand it to your UI/message.
    return ex.text or ex.stdout      # last text repr, or captured stdout
