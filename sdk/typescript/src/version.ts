// SPDX-License-Identifier: Apache-2.0
// The version of this SDK, which is package.json's: a unit test compares them.
export const VERSION = "0.1.0";
