ex = ctx.run_code("""
import urllib.request, json
data = json.load(urllib.request.urlopen("https://api.github.com/repos/pandastack-io/pandastack-ai"))
print(data["stargazers_count"])
""")
print(ex.text)
