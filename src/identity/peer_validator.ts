/**
 * From rules to verdicts: a {@link Validation} made ready to judge what peers present.
 *
 * @module
 */

import { judgeChain } from "./chain.ts";
import { parseRoots } from "./pem_material.ts";
import { retiredOf } from "./retired_anchors.ts";
import {
  type PeerValidator,
  type PeerValidatorOptions,
  RulesValidator,
} from "./rules_validator.ts";
import type { Validation } from "./validation.ts";

/**
 * Throws `credentials_invalid` that names what cannot be used. Where `needsMatchers(validation)`,
 * `prepareRegexes()` must have been awaited in this thread.
 */
export function createPeerValidator(
  validation: Validation,
  options: PeerValidatorOptions,
): PeerValidator {
  if (validation.kind !== "mesh") return new RulesValidator(validation, options);
  const { strictSpiffeChain } = options;
  const { trustDomains } = validation;
  const roots = [...parseRoots(validation.rootPems), ...retiredOf("", options.retired)];
  return {
    namesPeers: false,
    judge: (peer) => judgeChain({ ...peer, roots, trustDomains, strictSpiffeChain }),
  };
}
