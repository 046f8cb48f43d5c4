/**
 * May a caller go on to what its listener stands for? The intentions decide by what it has proven to be,
 * and where that is asked for the agent must agree; where nobody is asked, being let in is enough. Without
 * a permit nothing is dialled for it.
 *
 * @module
 */

import { type ErrorCode, messageOf } from "../../base/mod.ts";
import { pathWithoutQuery } from "../../http/mod.ts";
import type { TrustedPeer } from "../../identity/mod.ts";
import type { Connection } from "../../net/mod.ts";
import {
  authorize as decide,
  type JudgedRequest,
  type RequestVerdict,
  type Source,
  type TokenNeed,
  type VerifiedClaims,
} from "../../policy/mod.ts";
import type { ConnectionRecord } from "../observe/connection_record.ts";
import type { Context } from "../core/context.ts";

/** Who must allow it: the intentions (`match`), the agent as well (`both`), or `nobody` any more. */
export type AuthorizeMode = "match" | "both" | "nobody";

/** Who wants to go on. */
export interface AuthorizationSubject {
  readonly context: Context;
  readonly record: ConnectionRecord;
  /** Undefined: it has proven nothing. */
  readonly peer: TrustedPeer | undefined;
  /** Asked when all but the agent allow it, which may take its time. False: it has ended. */
  takePlace(): boolean;
  end(code: ErrorCode, reason: string): void;
}

/** What of an {@link AuthorizationSubject} is looked at to judge it, and who is told where it may not go on. */
interface Judged extends Pick<AuthorizationSubject, "context" | "peer" | "end"> {
  readonly record: Pick<ConnectionRecord, "rule">;
}

const GRANTED: unique symbol = Symbol("granted");

/** The proof that what a connection says may go further; only {@link authorize} can make one. */
export interface Permit {
  readonly [GRANTED]: true;
  readonly connection: Connection;
}

/** Ends with `onPermit`, which may come when the applicant has left, or ends the applicant. */
export function authorize(applicant: AuthorizationSubject, { by, connection, onPermit }: {
  readonly by: AuthorizeMode;
  readonly connection: Connection;
  readonly onPermit: (permit: Permit) => void;
}): void {
  if (by !== "nobody") applicant.record.stage = "authorize";
  if (!mayGoOn(applicant, by) || !applicant.takePlace()) return;
  const permit: Permit = { [GRANTED]: true, connection };
  authorizeWithAgent(applicant, by, () => onPermit(permit));
}

/** Has the agent agree where that is asked for; what it refuses has ended. */
export function authorizeWithAgent(
  applicant: Pick<AuthorizationSubject, "context" | "peer" | "end">,
  by: AuthorizeMode,
  onAllowed: () => void,
): void {
  if (by !== "both") return onAllowed();
  const { facts, remoteAuthorize } = applicant.context;
  const { uri = "", serial = "" } = applicant.peer ?? {};
  remoteAuthorize({ target: facts.service, uri, serial }).then(
    ({ allowed, reason }) => {
      if (allowed) onAllowed();
      else applicant.end("intention_denied", `agent: ${reason}`);
    },
    (error: unknown) => applicant.end("authorize_failed", messageOf(error)),
  );
}

const REQUEST_GRANTED: unique symbol = Symbol("request granted");

/** The proof that one request may go on; made here only. */
export interface RequestPermit {
  readonly [REQUEST_GRANTED]: true;
  readonly rule: string;
}

/** Why a request may not go on. */
export interface RequestDenial {
  readonly code: ErrorCode;
  readonly reason: string;
  /** By a rule that asks for what nobody can check. */
  readonly isUnjudged?: boolean;
  /** The tokens that would have allowed it; absent: no token would. */
  readonly lacks?: readonly TokenNeed[] | undefined;
}

/** Judges the requests of one connection; made anew when what is true changes. */
export type RequestJudge = (
  request: JudgedRequest,
  /** Of the tokens that came with it; absent: none. */
  claims?: VerifiedClaims,
) => RequestPermit | RequestDenial;

/** By the intentions of now. */
export function judgeOfRequests(
  { context, peer, record }: Omit<Judged, "end">,
  by: AuthorizeMode,
): RequestJudge {
  if (by === "nobody") return () => ANY_REQUEST;
  const { requestPolicy } = context.facts;
  if (!requestPolicy) return () => NO_POLICY;
  const judge = requestPolicy.forSource(sourceOf(peer));
  record.rule = judge.rule;
  // The same verdict for one request after the other, mostly.
  let last: RequestVerdict | undefined;
  let outcome: RequestPermit | RequestDenial = NO_POLICY;
  return (request, claims) => {
    const verdict = judge.decide(request, claims);
    if (verdict !== last) {
      last = verdict;
      const { kind, rule, isUnjudged, lacks } = verdict;
      outcome = kind === "allow"
        ? { [REQUEST_GRANTED]: true, rule }
        : { code: "intention_denied", reason: rule, isUnjudged, lacks };
    }
    return outcome;
  };
}

/** By the intentions of now: it may ask for nothing, whatever it asks for. */
export function isDeniedAll(
  { context, peer }: Pick<AuthorizationSubject, "context" | "peer">,
  by: AuthorizeMode,
): boolean {
  if (by === "nobody") return false;
  return context.facts.requestPolicy?.forSource(sourceOf(peer)).kind === "deny";
}

/** Everybody may ask for this one path, whatever the query; nobody for another. */
export interface ExposedPathRule {
  /** Undefined: it is not exposed any more. */
  readonly path: string | undefined;
}

/** By the path of now. */
export function judgeOfPath(exposed: ExposedPathRule): RequestJudge {
  return ({ path: asked }) => {
    const { path } = exposed;
    if (path !== undefined && pathWithoutQuery(asked) === path) return ANY_REQUEST;
    return { code: "route_not_found", reason: `only ${path ?? "what was exposed"} is here` };
  };
}

const ANY_REQUEST: RequestPermit = { [REQUEST_GRANTED]: true, rule: "" };
const NO_POLICY: RequestDenial = { code: "not_ready", reason: "no intentions yet" };

/** By the intentions of now, whatever they were when it was let in. False: it has ended. */
export function mayGoOn(applicant: Judged, by: AuthorizeMode): boolean {
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
