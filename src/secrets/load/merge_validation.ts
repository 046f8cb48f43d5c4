/**
 * One validation onto another, as Envoy's `combined_validation_context`: a merge of messages, in which
 * single values of the second win, lists join and booleans are or-ed.
 *
 * @module
 */

import { NO_RULES, type PeerRules } from "../../identity/mod.ts";
import type { ValidationSpec } from "../spec.ts";

/** `defaults` from the configuration; `dynamic` is what a source gave. */
export function mergeValidation(
  defaults: ValidationSpec,
  dynamic: ValidationSpec,
): ValidationSpec {
  const trustedCa = dynamic.trustedCa ?? defaults.trustedCa;
  const crl = dynamic.crl ?? defaults.crl;
  const spiffe = dynamic.spiffe ?? defaults.spiffe;
  const watchedDirectory = dynamic.watchedDirectory ?? defaults.watchedDirectory;
  return {
    type: "validation",
    systemRoots: defaults.systemRoots || dynamic.systemRoots,
    ...trustedCa && { trustedCa },
    ...crl && { crl },
    ...spiffe && { spiffe },
    ...watchedDirectory && { watchedDirectory },
    rules: mergeRules(defaults.rules, dynamic.rules),
  };
}

function mergeRules(defaults: PeerRules, dynamic: PeerRules): PeerRules {
  return {
    matchers: [...defaults.matchers, ...dynamic.matchers],
    spkiPins: [...defaults.spkiPins, ...dynamic.spkiPins],
    certificateHashes: [...defaults.certificateHashes, ...dynamic.certificateHashes],
    crlPems: [...defaults.crlPems, ...dynamic.crlPems],
    onlyLeafCrl: defaults.onlyLeafCrl || dynamic.onlyLeafCrl,
    // Absent is told by the default value: a limit that says the same changes nothing.
    maxDepth: dynamic.maxDepth === NO_RULES.maxDepth ? defaults.maxDepth : dynamic.maxDepth,
    allowExpired: defaults.allowExpired || dynamic.allowExpired,
    acceptUntrusted: defaults.acceptUntrusted || dynamic.acceptUntrusted,
  };
}
