/** Names of services and callers as a configuration file writes them. @module */

import * as v from "valibot";
import { parseTrustDomainId } from "../../identity/mod.ts";
import { text } from "../../base/schema.ts";

const SPIFFE_ID = /^spiffe:\/\/[a-zA-Z0-9._-]+(\/(?!\.{1,2}(\/|$))[a-zA-Z0-9._~%$&+,:;=@-]+)+$/;

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

/** Any SPIFFE id with a path; Consul's own escape what is no letter (`%20`). */
export function spiffeId(): v.GenericSchema<string> {
  return v.pipe(
    v.string("must be a SPIFFE id"),
    v.maxLength(2_048, "is longer than 2048 characters"),
    v.regex(SPIFFE_ID, "is no SPIFFE id"),
  );
}

/** A SPIFFE id, or all below one: `spiffe://td/ns/*`. */
export function spiffePattern(): v.GenericSchema<string> {
  return v.pipe(
    text(),
    v.startsWith("spiffe://", "must begin with spiffe://"),
    v.check((value) => {
      const id = value.endsWith("/*") ? value.slice(0, -2) : value;
      return SPIFFE_ID.test(id) || parseTrustDomainId(id) !== undefined;
    }, "is no SPIFFE id"),
  );
}
