/**
 * The contract as authors get it.
 *
 * @module
 */

import text from "./api.ts" with { type: "text" };

export const CONTRACT_TEXT: string = text;
