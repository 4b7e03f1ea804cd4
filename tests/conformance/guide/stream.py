code = sandbox.exec_stream(
    "bash -lc 'pip install torch && python train.py'",
    on_stdout=lambda line: print(line, end=""),
)
print("exited", code)
