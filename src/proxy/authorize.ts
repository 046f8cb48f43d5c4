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
  readonly context: Context;
  readonly record: ConnectionRecord;
  /** Undefined: it has proven nothing. */
  readonly peer: TrustedPeer | undefined;
  /** Asked when all but the agent allow it, which may take its time. False: it has ended. */
  takePlace(): boolean;
  end(code: ErrorCode, reason: string): void;
}

const GRANTED: unique symbol = Symbol("granted");

/** The proof that what a connection says may go further; only {@link authorize} can make one. */
export interface Permit {
  readonly [GRANTED]: true;
  readonly connection: Connection;
}

/** Ends with `onPermit`, which may come when the applicant has left, or ends the applicant. */
export function authorize(applicant: Applicant, { by, connection, onPermit }: {
  readonly by: Authorizer;
  readonly connection: Connection;
  readonly onPermit: (permit: Permit) => void;
}): void {
  if (by !== "nobody") applicant.record.stage = "authorize";
  if (!mayGoOn(applicant, by) || !applicant.takePlace()) return;
  const permit: Permit = { [GRANTED]: true, connection };
  if (by !== "both") return onPermit(permit);
  const { facts, remoteAuthorize } = applicant.context;
  const { uri = "", serial = "" } = applicant.peer ?? {};
  remoteAuthorize({ target: facts.service, uri, serial }).then(
    ({ allowed, reason }) => {
      if (allowed) onPermit(permit);
      else applicant.end("intention_denied", `agent: ${reason}`);
    },
    (error: unknown) => applicant.end("authorize_failed", messageOf(error)),
  );
}

const REQUEST_GRANTED: unique symbol = Symbol("request granted");

/** The proof that one request may go on; made here only. */
export interface RequestPermit {
  readonly [REQUEST_GRANTED]: true;
}

const REQUEST_PERMIT: RequestPermit = { [REQUEST_GRANTED]: true };

/** By the intentions of now; undefined: it may not, and `onDenied` was called. */
export function permitRequest(
  { context, peer }: Pick<Applicant, "context" | "peer">,
  { by, onDenied }: {
    readonly by: Authorizer;
    /** Its path is the one that is sent on. */
    readonly request: RequestFacts;
    readonly onDenied: (code: ErrorCode, reason: string) => void;
  },
): RequestPermit | undefined {
  if (by === "nobody") return REQUEST_PERMIT;
  const { policy } = context.facts;
  if (!policy) {
    onDenied("not_ready", "no intentions yet");
    return undefined;
  }
  const { kind, rule } = decide(sourceOf(peer), policy);
  if (kind === "allow") return REQUEST_PERMIT;
  onDenied("intention_denied", rule);
  return undefined;
}

/** What a permission may look at. */
export interface RequestFacts {
  readonly method: string;
  readonly authority: string;
  readonly path: string;
  /** Three texts each: name in lower case, value, name as spelled. */
  readonly fields: readonly string[];
}

/** By the intentions of now, whatever they were when it was let in. False: it has ended. */
export function mayGoOn(applicant: Applicant, by: Authorizer): boolean {
  if (by === "nobody") return true;
  const { policy } = applicant.context.facts;
  if (!policy) {
    applicant.end("not_ready", "no intentions yet");
    return false;
  }
  const { kind, rule } = decide(sourceOf(applicant.peer), policy);
  applicant.record.rule = rule;
  if (kind === "deny") applicant.end("intention_denied", rule);
  return kind === "allow";
}

/** What nobody vouches for is a claim: such a peer has only what the default gives. */
function sourceOf(peer: TrustedPeer | undefined): Source {
  return peer?.verified ? peer : NOBODY;
}

const NOBODY: Source = { id: undefined, uri: "" };
