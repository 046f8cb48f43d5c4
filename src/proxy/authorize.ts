/**
 * May a caller go on to what its listener stands for? The intentions decide by what it has proven to be,
 * and where that is asked for the agent must agree; where nobody is asked, being let in is enough. Without
 * a permit nothing is dialled for it.
 *
 * @module
 */

import { type ErrorCode, messageOf } from "../base/mod.ts";
import type { TrustedPeer } from "../identity/mod.ts";
import type { Connection } from "../net/mod.ts";
import { authorize as decide, type Source } from "../policy/mod.ts";
import type { ConnectionRecord } from "./connection.ts";
import type { Context } from "./context.ts";

/** Who must allow it: the intentions (`match`), the agent as well (`both`), or `nobody` any more. */
export type Authorizer = "match" | "both" | "nobody";

/** Who wants to go on. */
export interface Applicant {
  /** Undefined: it has proven nothing. */
  readonly peer: TrustedPeer | undefined;
  readonly connection: Connection;
  readonly record: ConnectionRecord;
  /** All but the agent allow it, which may take its time. False: it has ended. */
  onAllowed(): boolean;
  onPermit(permit: Permit): void;
  end(code: ErrorCode, reason: string): void;
}

const GRANTED: unique symbol = Symbol("granted");

/** The proof that bytes of a caller may pass; only {@link authorize} can make one. */
export interface Permit {
  readonly [GRANTED]: true;
  readonly connection: Connection;
}

/** Ends with `onPermit` or `end`, which may come when the applicant has left. */
export function authorize(applicant: Applicant, by: Authorizer, context: Context): void {
  if (by !== "nobody") applicant.record.stage = "authorize";
  if (!mayGoOn(applicant, by, context) || !applicant.onAllowed()) return;
  const { peer, connection } = applicant;
  const permit: Permit = { [GRANTED]: true, connection };
  if (by !== "both") return applicant.onPermit(permit);
  const { facts, remoteAuthorize } = context;
  const { uri = "", serial = "" } = peer ?? {};
  remoteAuthorize({ target: facts.service, uri, serial }).then(
    ({ allowed, reason }) => {
      if (allowed) applicant.onPermit(permit);
      else applicant.end("intention_denied", `agent: ${reason}`);
    },
    (error: unknown) => applicant.end("authorize_failed", messageOf(error)),
  );
}

/** By the intentions of now, whatever they were when it was let in. False: it has ended. */
export function mayGoOn(applicant: Applicant, by: Authorizer, { facts }: Context): boolean {
  if (by === "nobody") return true;
  if (!facts.policy) {
    applicant.end("not_ready", "no intentions yet");
    return false;
  }
  const { kind, rule } = decide(sourceOf(applicant.peer), facts.policy);
  applicant.record.rule = rule;
  if (kind === "deny") applicant.end("intention_denied", rule);
  return kind === "allow";
}

/** What nobody vouches for is a claim: such a peer has only what the default gives. */
function sourceOf(peer: TrustedPeer | undefined): Source {
  return peer?.verified ? peer : NOBODY;
}

const NOBODY: Source = { id: undefined, uri: "" };
