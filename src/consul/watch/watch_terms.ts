/**
 * What differs between watches beside an agent and beside servers: how long is waited, what is believed,
 * how soon a failure is asked again about, and which failures concern everybody.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import type { AgentLink } from "../http/link.ts";
import { ServerCursor } from "./server_cursor.ts";
import { AgentCursor, type WatchCursor } from "./watch_cursor.ts";

export interface WatchTerms {
  /** How long a poll waits at most. */
  waitMs(question: { readonly critical: boolean; readonly dropped: boolean }): number;
  /** An index counts up; a hash is only equal or not. */
  createStand(cursor: "index" | "hash"): WatchCursor;
  /** How long failures may stretch the pause: what is cheap to ask, or mended by hand, is asked sooner. */
  pauseLimitMs(code: ErrorCode, watch: { critical: boolean; failures: number }): number;
  /** Failures that are over for all once one has an answer. */
  isShared(code: ErrorCode): boolean;
}

/**
 * The agent drops a wait for health, leaf and roots with its connection. One for rules, chains, config
 * entries and the registration goes on without us and keeps its place among the 200 connections until
 * it ends (seen on 1.22.7), so that a proxy restarting in a loop would lock out the whole host.
 */
const WAIT_DROPPED_MS = 300_000;
const WAIT_ABANDONED_MS = 60_000;

const PAUSE_LIMIT_MS: Partial<Record<ErrorCode, number>> = {
  agent_unreachable: 10_000,
  agent_not_found: 15_000,
  agent_forbidden: 60_000,
  cluster_changed: 10_000,
};
const PAUSE_LIMIT_OTHER_MS = 180_000;
/** What decides about trust is asked again soon: a deny must not wait for minutes after an outage. */
const PAUSE_LIMIT_CRITICAL_MS = 5_000;

export function agentWatchTerms(link: AgentLink): WatchTerms {
  return {
    waitMs: agentWaitMs,
    createStand: (cursor) => new AgentCursor(cursor, link),
    pauseLimitMs: agentPauseLimitMs,
    isShared: (code) => code === "agent_unreachable" || code === "cluster_changed",
  };
}

function agentWaitMs({ dropped }: { readonly dropped: boolean }): number {
  return dropped ? WAIT_DROPPED_MS : WAIT_ABANDONED_MS;
}

function agentPauseLimitMs(code: ErrorCode, { critical }: { readonly critical: boolean }): number {
  return PAUSE_LIMIT_MS[code] ?? (critical ? PAUSE_LIMIT_CRITICAL_MS : PAUSE_LIMIT_OTHER_MS);
}

/** A server that is cut off from the others lets us wait; only how a wait ends shows it. */
const WAIT_CRITICAL_MS = 30_000;
/** Servers elect a leader within seconds, and a request waits for a server in use by itself. */
const PAUSE_LIMIT_LEADER_MS = 1_000;
/** Failures in a row after which that is no election. */
const ELECTION_FAILURES = 20;
const PAUSE_LIMIT_SERVERS_MS = 10_000;

export function serversWatchTerms(link: AgentLink): WatchTerms {
  const isShared = (code: ErrorCode) =>
    code === "agent_unreachable" || code === "agent_failed" || code === "cluster_changed";
  return {
    waitMs: (question) => question.critical ? WAIT_CRITICAL_MS : agentWaitMs(question),
    createStand: () => new ServerCursor(link),
    pauseLimitMs(code, { critical, failures }) {
      if (!isShared(code)) return Math.min(agentPauseLimitMs(code, { critical }), 60_000);
      // Those who ask often are few, and wake the others.
      return critical || failures < ELECTION_FAILURES
        ? PAUSE_LIMIT_LEADER_MS
        : PAUSE_LIMIT_SERVERS_MS;
    },
    isShared,
  };
}
