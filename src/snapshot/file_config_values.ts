/**
 * Values of the configuration file: addresses, durations, names and numbers as schemas whose messages
 * continue a sentence that begins with the path.
 *
 * @module
 */

import * as v from "valibot";
import type { Address } from "../base/mod.ts";
import { parseServiceId } from "../identity/mod.ts";
import { address, text } from "../secrets/mod.ts";

export { address, count, duration, object, port, text } from "../secrets/mod.ts";

/** A name of the mesh. */
export function name(options: { readonly wildcard?: boolean } = {}): v.GenericSchema<string> {
  return v.pipe(
    text(),
    v.check(
      (value) =>
        (options.wildcard && value === "*") || (value.length <= 255 && !/[\s/*]/.test(value)),
      options.wildcard
        ? 'must be a name without spaces and slashes, or "*"'
        : "must be a name without spaces, slashes and stars",
    ),
  );
}

export function octalMode(): v.GenericSchema<string, number> {
  return v.pipe(
    v.string('must be an octal text such as "0600"'),
    v.regex(/^0?[0-7]{3}$/, 'must be an octal text such as "0600"'),
    v.transform((mode) => Number.parseInt(mode, 8)),
  );
}

export function spiffeId(): v.GenericSchema<string> {
  return v.pipe(
    v.string("must be a SPIFFE id"),
    v.rawCheck(({ dataset, addIssue }) => {
      if (!dataset.typed) return;
      const parsed = parseServiceId(dataset.value);
      if (parsed.kind === "refused") addIssue({ message: `is no SPIFFE id: it ${parsed.reason}` });
    }),
  );
}

/** Where an upstream listens: without a host, on this machine only. */
export function bindAddress(): v.GenericSchema<string, Address> {
  return address({ unix: true, emptyHost: "127.0.0.1" });
}
