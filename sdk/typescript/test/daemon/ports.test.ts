// SPDX-License-Identifier: Apache-2.0
// Servers in a sandbox.
import { expect, test } from "vitest";
import { BadRequestError } from "../../src/index.js";
import { make } from "./box.js";

test("a server is reached by a link, until that is over", async () => {
  const sandbox = await make();
  await sandbox.filesystem.write("/srv/report/a.txt", "größe");
  await sandbox.exec("cd /srv && (setsid python3 -m http.server 8000 >/tmp/log 2>&1 &)");
  await sandbox.exec("until curl -s localhost:8000; do :; done", { timeoutSeconds: 60 });
  expect(await sandbox.labelPort(8000, "web")).toMatchObject({ port: 8000, label: "web" });
  expect(await sandbox.ports()).toEqual([
    { port: 8000, label: "web", listening: true, source: "user", proxyUrl: `/v1/sandboxes/${sandbox.id}/proxy/8000/` },
  ]);
  expect((await sandbox.refresh()).metadata).toEqual({ "port.8000": "web" });
  await sandbox.unlabelPort(8000);
  expect(await sandbox.ports()).toMatchObject([{ port: 8000, source: "detected" }]);

  const url = await sandbox.previewUrl(8000, { ttlSeconds: 600, paths: ["/report"] });
  expect(await (await fetch(`${url}report/a.txt`)).text()).toBe("größe");
  expect((await fetch(`${url}elsewhere`)).status).toBe(403);
  await expect(sandbox.previewUrl(0)).rejects.toThrow(BadRequestError);
});
