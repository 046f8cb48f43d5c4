/** Admission of a session, before anything is dialled or read, and request judges. @module */

import { type ErrorCode, messageOf } from "../../base/mod.ts";
import { pathWithoutQuery } from "../../http/mod.ts";
import type { TrustedPeer } from "../../identity/mod.ts";
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
import type { Connection, Identity } from "../../plugin/mod.ts";
import type { AuthorizeMode, Session } from "./session.ts";

const GRANTED: unique symbol = Symbol("granted");

/** The proof that a session was admitted; only {@link admit} makes one. */
export interface Permit {
  readonly [GRANTED]: true;
}

interface AdmitOptions {
  readonly mode: AuthorizeMode;
  /** Intentions judge the `caller` as a whole, or each of its `requests` later. */
  readonly judged: "caller" | "requests";
  /** May be called after the session has ended. */
  readonly onAdmitted: (permit: Permit) => void;
}

/** Ends with `onAdmitted`, at once or later, or ends the session. */
export function admit(session: Session, { mode, judged, onAdmitted }: AdmitOptions): void {
  if (judged === "caller") {
    if (mode !== "nobody") session.record.stage = "authorize";
    if (!isAllowed(session, mode)) return;
  }
  // Before anything is waited for: a caller that waits holds a place.
  if (!session.takePlace()) return;
  const permit: Permit = { [GRANTED]: true };
  authorizeWithAgent(session, mode, () =>
    runConnectionHooks(session, () => {
      session.observers.admitted(session.record);
      onAdmitted(permit);
    }));
}

function runConnectionHooks(session: Session, onAdmitted: () => void): void {
  const { record, context: { facts, deadlines } } = session;
  const generation = facts.plugins?.of(record.listener);
  if (!generation?.judgesConnections) return onAdmitted();
  record.stage = "plugins";
  generation.judgeConnection(connectionValue(session), {
    deadlines,
    onKnown: (refusal) => {
      if (refusal) session.end(refusal.code, refusal.reason);
      else onAdmitted();
    },
  });
}

/** The caller's connection as plugins see it. */
export function connectionValue({ record, caller }: Session): Connection {
  const { listener, direction, remote: remoteAddress } = record;
  const [ownUri = ""] = caller.ownUris;
  const { peer } = caller;
  const source: Identity | null = peer?.verified
    ? { ...(peer.id ?? NO_SERVICE), uri: peer.uri }
    : null;
  return { listener, direction, remoteAddress, ownUri, source };
}

const NO_SERVICE: Omit<Identity, "uri"> = {
  trustDomain: "",
  partition: "",
  namespace: "",
  datacenter: "",
  service: "",
};

/** The caller that is judged; it ends where it is denied. */
export interface AuthorizationSubject {
  readonly context: Pick<Context, "facts" | "remoteAuthorize">;
  readonly record: Pick<ConnectionRecord, "rule">;
  /** `undefined`: a plain connection. */
  readonly peer: TrustedPeer | undefined;
  end(code: ErrorCode, reason: string): void;
}

/** Asks the agent if `mode` requires it; ends a subject that it denies. */
export function authorizeWithAgent(
  subject: Omit<AuthorizationSubject, "record">,
  mode: AuthorizeMode,
  onAllowed: () => void,
): void {
  if (mode !== "both") return onAllowed();
  const { facts, remoteAuthorize } = subject.context;
  const { uri = "", serial = "" } = subject.peer ?? {};
  remoteAuthorize({ target: facts.service, uri, serial }).then(
    ({ allowed, reason }) => {
      if (allowed) onAllowed();
      else subject.end("intention_denied", `agent: ${reason}`);
    },
    (error: unknown) => subject.end("authorize_failed", messageOf(error)),
  );
}

/** Whether the intentions in force allow the caller. False: denied, and the subject has ended. */
export function isAllowed(subject: AuthorizationSubject, mode: AuthorizeMode): boolean {
  if (mode === "nobody") return true;
  const { policy } = subject.context.facts;
  if (!policy) {
    subject.end("not_ready", "no intentions yet");
    return false;
  }
  const { kind, rule } = decide(sourceOf(subject.peer), policy);
  subject.record.rule = rule;
  if (kind === "deny") subject.end("intention_denied", rule);
  return kind === "allow";
}

const REQUEST_GRANTED: unique symbol = Symbol("request granted");

/** The proof that a request is allowed; made here only. */
export interface RequestPermit {
  readonly [REQUEST_GRANTED]: true;
  readonly rule: string;
}

export interface RequestDenial {
  readonly code: ErrorCode;
  readonly reason: string;
  /** The deciding rule has a condition that cannot be checked. */
  readonly isUnjudged?: boolean;
  /** The tokens that would have allowed it; absent: no token would. */
  readonly lacks?: readonly TokenNeed[] | undefined;
}

/** Judges the requests of one session; replaced when policy or credentials change. */
export type RequestJudge = (
  request: JudgedRequest,
  /** Claims of its verified tokens; absent: it has none. */
  claims?: VerifiedClaims,
) => RequestPermit | RequestDenial;

export function judgeOfRequests(
  { context, peer, record }: Pick<AuthorizationSubject, "context" | "peer" | "record">,
  mode: AuthorizeMode,
): RequestJudge {
  if (mode === "nobody") return () => ANY_REQUEST;
  const { requestPolicy } = context.facts;
  if (!requestPolicy) return () => NO_POLICY;
  const judge = requestPolicy.forSource(sourceOf(peer));
  record.rule = judge.rule;
  // Requests of one connection mostly get the same verdict.
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

export function isDeniedAll(
  { context, peer }: Pick<AuthorizationSubject, "context" | "peer">,
  mode: AuthorizeMode,
): boolean {
  if (mode === "nobody") return false;
  return context.facts.requestPolicy?.forSource(sourceOf(peer)).kind === "deny";
}

/** Any caller may request this one path, with any query, and no other. */
export interface ExposedPathRule {
  /** `undefined`: it is not exposed any more. */
  readonly path: string | undefined;
}

export function judgeOfPath(exposed: ExposedPathRule): RequestJudge {
  return ({ path: target }) => {
    const { path } = exposed;
    if (path !== undefined && pathWithoutQuery(target) === path) return ANY_REQUEST;
    return { code: "route_not_found", reason: `only ${path ?? "what was exposed"} is here` };
  };
}

const ANY_REQUEST: RequestPermit = { [REQUEST_GRANTED]: true, rule: "" };
const NO_POLICY: RequestDenial = { code: "not_ready", reason: "no intentions yet" };

/** The name in an unverified certificate is only a claim: the default policy decides about such a peer. */
function sourceOf(peer: TrustedPeer | undefined): Source {
  return peer?.verified ? peer : ANONYMOUS;
}

const ANONYMOUS: Source = { id: undefined, uri: "" };
