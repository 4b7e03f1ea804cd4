// SPDX-License-Identifier: Apache-2.0
import tseslint from "typescript-eslint";

export const style = {
  "@typescript-eslint/array-type": ["error", { default: "array-simple" }],
  "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_+$" }],
};

export default tseslint.config(
  { ignores: ["dist", "node_modules", "**/*.mjs", "**/*.d.mts", "*.js"] },
  tseslint.configs.strictTypeChecked,
  tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      ...style,
      "@typescript-eslint/dot-notation": "off", // tsc wants brackets for what may be missing
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-unnecessary-type-parameters": "off", // JSON is taken to be what the contract says
      "@typescript-eslint/non-nullable-type-assertion-style": "off", // the other rule forbids what this one wants
      "@typescript-eslint/prefer-nullish-coalescing": ["error", { ignorePrimitives: { string: true } }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
);
