/**
 * The text of the contract, as authors get it.
 *
 * @module
 */

// Bun cannot re-export it: a text import in mod.ts, beside its types, is a syntax error there.
import text from "./api.ts" with { type: "text" };

export const CONTRACT_TEXT: string = text;
