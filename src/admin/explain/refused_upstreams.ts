/**
 * Upstreams that are refused: how they are found by name, and the answer about a request to one.
 *
 * @module
 */

import {
  localAddressOf,
  type NamedUpstream,
  type Refusal,
  upstreamLabel,
  upstreamsNamed,
} from "../../snapshot/mod.ts";
import type { ExplanationView } from "./explanation_view.ts";
import type { AskMesh } from "./merge_explained.ts";

/** The refused upstream that `name` means; `undefined`: none, or several. */
export function refusedUpstream(refused: readonly Refusal[], name: string): Refusal | undefined {
  const [first, second] = upstreamsNamed(
    refusedUpstreams(refused),
    name,
    ({ upstream }) => upstream,
  );
  return second ? undefined : first;
}

type UpstreamRefusal = Refusal & { readonly upstream: NamedUpstream };

function refusedUpstreams(refused: readonly Refusal[]): readonly UpstreamRefusal[] {
  return refused.filter((refusal): refusal is UpstreamRefusal => refusal.upstream !== undefined);
}

/** A list to append to that of the served upstreams; `""`: none is refused. */
export function refusedText(refused: readonly Refusal[]): string {
  const labels = refusedUpstreams(refused).map(({ upstream }) => {
    const at = localAddressOf(upstream);
    return upstreamLabel(upstream) + (at && ` (${at})`);
  });
  return labels.length === 0 ? "" : `; refused: ${labels.join(" ")}`;
}

/** The answer about an upstream that is refused: nothing listens for it. */
export function explainRefused(
  { what, reason, upstream }: Refusal,
  { hasConsul, unfollowed }: Pick<AskMesh, "hasConsul" | "unfollowed">,
): ExplanationView {
  const id = upstream?.id ?? what;
  const at = upstream ? localAddressOf(upstream) : "";
  return {
    listener: id,
    direction: "outbound",
    protocol: null,
    source: null,
    request: null,
    upstream: id,
    verdict: "fail",
    status: 0,
    answer: {
      status: 0,
      grpcStatus: null,
      code: "listen_failed",
      reason: `nothing listens${at && ` on ${at}`}: the upstream is refused: ${reason}`,
    },
    rule: "",
    permissions: [],
    tokens: [],
    route: null,
    plugins: [],
    splits: [],
    local: null,
    requestTimeoutMs: 0,
    idleTimeoutMs: 0,
    limits: null,
    unknown: [],
    workers: 0,
    hasConsul,
    sourceNote: "",
    unfollowed: unfollowed(id).filter((sentence) => !sentence.includes(reason)),
    next: [],
  };
}
