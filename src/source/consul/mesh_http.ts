/**
 * The mesh entry's HTTP block as rules of the public listener.
 *
 * @module
 */

import type { MeshHttp } from "../../consul/mod.ts";
import type { PathRules } from "../../http/mod.ts";
import { type HttpSettings, INCOMING_PATH } from "../http_rules.ts";

export type HttpJudgement =
  | ({ readonly kind: "taken" } & Pick<HttpSettings, "path" | "sanitizeForwardedClientCert">)
  | { readonly kind: "refused"; readonly reason: string };

/** `undefined`: there is no such block. */
export function judgeMeshHttp(block: MeshHttp | undefined): HttpJudgement {
  if (!block) return { kind: "taken" };
  const { escapedSlashesAction: escaped, underscoresAction: underscored } = block;
  const escapedSlashes = ESCAPED_SLASHES.get(escaped);
  const underscores = UNDERSCORES.get(underscored);
  if (!escapedSlashes) {
    return refused(`PathWithEscapedSlashesAction "${escaped}"`, ESCAPED_SLASHES);
  }
  if (!underscores) {
    return refused(`HeadersWithUnderscoresAction "${underscored}"`, UNDERSCORES);
  }
  return {
    kind: "taken",
    path: {
      normalize: block.normalizesPaths,
      mergeSlashes: block.mergesSlashes,
      escapedSlashes,
      underscores,
    },
    sanitizeForwardedClientCert: block.sanitizesForwardedClientCert,
  };
}

const ESCAPED_SLASHES: ReadonlyMap<string, PathRules["escapedSlashes"]> = new Map([
  ["", INCOMING_PATH.escapedSlashes],
  ["IMPLEMENTATION_SPECIFIC_DEFAULT", INCOMING_PATH.escapedSlashes],
  ["KEEP_UNCHANGED", "keep"],
  ["REJECT_REQUEST", "reject"],
  ["UNESCAPE_AND_REDIRECT", "redirect"],
  ["UNESCAPE_AND_FORWARD", "unescape"],
]);

const UNDERSCORES: ReadonlyMap<string, PathRules["underscores"]> = new Map([
  ["", INCOMING_PATH.underscores],
  ["ALLOW", "allow"],
  ["REJECT_REQUEST", "reject"],
  ["DROP_HEADER", "drop"],
]);

function refused(what: string, known: ReadonlyMap<string, unknown>): HttpJudgement {
  const names = [...known.keys()].filter((name) => name !== "").join(", ");
  return {
    kind: "refused",
    reason: `HTTP.Incoming.RequestNormalization.${what} is not known; write one of ${names}`,
  };
}
