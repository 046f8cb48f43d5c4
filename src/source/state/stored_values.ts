/**
 * Values that parts of a stored snapshot have in common.
 *
 * @module
 */

import * as v from "valibot";

export const Amount = v.pipe(v.number(), v.finite(), v.minValue(0));
export const Version = v.pipe(v.number(), v.safeInteger(), v.minValue(1));
export const Texts = v.array(v.string());
