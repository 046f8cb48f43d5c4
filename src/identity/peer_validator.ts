/**
 * From rules to verdicts: a {@link Validation} made ready to judge what peers present.
 *
 * @module
 */

import { type ChainVerdict, judgeChain } from "./chain.ts";
import { parseRoots } from "./pem_material.ts";
import type { Usage } from "./path.ts";
import type { Presented } from "./presented.ts";
import { type RetiredAnchor, retiredOf } from "./retired_anchors.ts";
import { createRulesValidator } from "./rules_validator.ts";
import type { Validation } from "./validation.ts";

export interface PeerToJudge extends Presented {
  /** Wall clock, of the handshake where that was before. */
  readonly nowMs: number;
  /**
   * Wall clock of now where {@link nowMs} was before: a CA certificate or a revocation list that was made
   * since is not one of the future. Nothing is judged by having expired since the handshake.
   */
  readonly presentMs?: number;
  readonly usage: Usage;
}

export interface PeerValidator {
  /** The rules themselves say who may answer, by names or pins, beyond whom their CAs vouch for. */
  readonly namesPeers: boolean;
  /** Pure and bounded; never throws for anything the peer sent. */
  judge(peer: PeerToJudge): ChainVerdict;
}

export interface PeerValidatorOptions {
  /** Lower case: whose Consul service ids count as such where `ca` or `spiffe` rules decide. */
  readonly serviceTrustDomains: readonly string[];
  /** CA certificates must name the trust domain, too; not of `ca` rules, which know none. */
  readonly strictSpiffeChain: boolean;
  /** Count beside the anchors of the rules. Only for connections that are open: see {@link RetiredAnchor}. */
  readonly retired?: readonly RetiredAnchor[];
}

/**
 * Throws `credentials_invalid` that names what cannot be used. Where `needsMatchers(validation)`,
 * `prepareMatchers()` must have been awaited in this thread.
 */
export function createPeerValidator(
  validation: Validation,
  options: PeerValidatorOptions,
): PeerValidator {
  if (validation.kind !== "mesh") return createRulesValidator(validation, options);
  const { strictSpiffeChain } = options;
  const { trustDomains } = validation;
  const roots = [...parseRoots(validation.rootPems), ...retiredOf("", options.retired)];
  return {
    namesPeers: false,
    judge: ({ leaf, presented, nowMs, presentMs = nowMs, usage }) =>
      judgeChain({
        ...{ leaf, presented, nowMs, presentMs, usage },
        ...{ roots, trustDomains, strictSpiffeChain },
      }),
  };
}
