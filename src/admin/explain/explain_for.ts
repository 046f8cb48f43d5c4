/**
 * Explains a request: the data paths decide, Consul adds what it alone knows.
 *
 * @module
 */

import type { ExplainQuery } from "../../proxy/mod.ts";
import type { ExplanationView } from "./explanation_view.ts";
import { type AskMesh, mergeExplained, type NotExplained } from "./merge_explained.ts";
import { explainRefused, refusedText, refusedUpstream } from "./refused_upstreams.ts";
import { calleeAsker, sourceNote } from "./mesh_questions.ts";
import type { AdminView } from "../view.ts";

/** `undefined`: there is no state yet. */
export async function explainFor(
  view: AdminView,
  question: ExplainQuery,
): Promise<ExplanationView | NotExplained | undefined> {
  const snapshot = view.snapshot();
  if (!snapshot) return undefined;
  const mesh: AskMesh = {
    callee: calleeAsker(snapshot, view.mesh()),
    hasConsul: view.mesh() !== undefined,
    ownUri: snapshot.credentials?.uri ?? "",
    sourceNote: (uri) => sourceNote(uri, snapshot, view.mesh()),
    unfollowed: (upstream) => view.unfollowed(upstream),
  };
  const explained = await mergeExplained(await view.explain(question), mesh);
  const { to } = question;
  if (!explained || !("reason" in explained) || explained.kind === "invalid") return explained;
  if (to.kind === "inbound") return explained;
  const refused = view.refused();
  const meant = refusedUpstream(refused, to.name);
  if (meant) return explainRefused(meant, mesh);
  return { ...explained, reason: explained.reason + refusedText(refused) };
}

/** `/explain?upstream=db&method=GET&path=/a`. */
export function questionOf(
  query: (name: string) => string | undefined,
  headers: readonly string[],
): ExplainQuery {
  const listener = query("listener");
  const upstream = query("upstream");
  return {
    to: listener !== undefined
      ? { kind: "listener", name: listener }
      : upstream !== undefined
      ? { kind: "upstream", name: upstream }
      : { kind: "inbound" },
    source: query("source") ?? "",
    method: query("method") ?? "GET",
    host: query("host"),
    path: query("path") ?? "/",
    headers,
    connects: query("connect") !== "no",
  };
}
