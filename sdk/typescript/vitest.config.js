// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from "vitest/config";

const common = { testTimeout: 200_000, hookTimeout: 200_000 };

export default defineConfig({
  test: {
    fileParallelism: false, // a sandbox takes a processor
    projects: [
      { test: { ...common, name: "unit", include: ["test/unit/*.test.ts"] } },
      { test: { ...common, name: "daemon", include: ["test/daemon/*.test.ts"], globalSetup: "test/daemon/setup.ts" } },
    ],
  },
});
