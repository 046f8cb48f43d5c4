/**
 * The kit as it is lent to the tests of authors: what its types promise, and nothing else.
 *
 * @module
 */

import type * as api from "./api.ts";
import apiText from "./api.ts" with { type: "text" };
import { settle } from "./clock.ts";
import { mount } from "./mount.ts";
import { hold, ok, reset, status, unreachable } from "./scripted_upstream.ts";

export const LENT_KIT: typeof api = { mount, ok, status, reset, unreachable, hold, settle };

/** Of `postern/kit`, for editors; the contract is `postern` to them. */
export const KIT_TYPES: string = apiText.replace('"../plugin/mod.ts"', '"postern"');
