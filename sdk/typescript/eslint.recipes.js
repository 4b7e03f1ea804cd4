// SPDX-License-Identifier: Apache-2.0
// For the recipes, without types: those come with the frameworks, and tsc looks at them when a recipe is tried.
import tseslint from "typescript-eslint";
import { style } from "./eslint.config.js";

export default tseslint.config(tseslint.configs.strict, tseslint.configs.stylistic, { rules: style });
