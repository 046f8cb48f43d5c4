/**
 * The differences between watches beside an agent and beside servers: how long a poll waits, which answers
 * are believed, how soon a failure is retried, and which failures concern all watches.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import type { ConsulReach } from "./consul_reach.ts";
import { AgentCursor, ServerCursor, type WatchCursor } from "./cursors.ts";

export interface WatchTerms {
  /** How long a poll waits at most. */
  waitMs(question: { readonly isCritical?: true; readonly isDropped?: true }): number;
  createCursor(kind: "index" | "hash"): WatchCursor;
  /** Limit of the pause after failures; shorter for cheap reads, and for faults that operators fix. */
  pauseLimitMs(
    code: ErrorCode,
    watch: { readonly isCritical: boolean; readonly failures: number },
  ): number;
  /** Failures that are over for all watches once one has an answer. */
  isShared(code: ErrorCode): boolean;
}

/**
 * The agent drops a wait for health, leaf and roots with its connection. One for rules, chains, config
 * entries and the registration goes on without us and keeps its place among the 200 connections until it
 * ends (seen on 1.22.7), so that a proxy restarting in a loop would lock out the whole host.
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
/** Facts about trust are read again soon: a deny must not wait for minutes after an outage. */
const PAUSE_LIMIT_CRITICAL_MS = 5_000;

export function agentWatchTerms(reach: ConsulReach): WatchTerms {
  return {
    waitMs: agentWaitMs,
    createCursor: (kind) => new AgentCursor(kind, reach),
    pauseLimitMs: (code, { isCritical }) => agentPauseLimitMs(code, isCritical),
    isShared: (code) => code === "agent_unreachable" || code === "cluster_changed",
  };
}

function agentWaitMs({ isDropped }: { readonly isDropped?: true }): number {
  return isDropped ? WAIT_DROPPED_MS : WAIT_ABANDONED_MS;
}

function agentPauseLimitMs(code: ErrorCode, isCritical: boolean): number {
  return PAUSE_LIMIT_MS[code] ?? (isCritical ? PAUSE_LIMIT_CRITICAL_MS : PAUSE_LIMIT_OTHER_MS);
}

/** A server that is cut off from the others lets a wait run; only the end of the wait shows it. */
const WAIT_CRITICAL_MS = 30_000;
/** Servers elect a leader within seconds, and a request waits for a server in use by itself. */
const PAUSE_LIMIT_LEADER_MS = 1_000;
/** More failures in a row are no election. */
const ELECTION_FAILURES = 20;
const PAUSE_LIMIT_SERVERS_MS = 10_000;
const PAUSE_LIMIT_ANY_SERVER_MS = 60_000;

export function serversWatchTerms(reach: ConsulReach): WatchTerms {
  const isShared = (code: ErrorCode) =>
    code === "agent_unreachable" || code === "agent_failed" || code === "cluster_changed";
  return {
    waitMs: (question) => question.isCritical ? WAIT_CRITICAL_MS : agentWaitMs(question),
    createCursor: () => new ServerCursor(reach),
    pauseLimitMs(code, { isCritical, failures }) {
      if (!isShared(code)) {
        return Math.min(agentPauseLimitMs(code, isCritical), PAUSE_LIMIT_ANY_SERVER_MS);
      }
      // The critical watches are few, and wake the others.
      return isCritical || failures < ELECTION_FAILURES
        ? PAUSE_LIMIT_LEADER_MS
        : PAUSE_LIMIT_SERVERS_MS;
    },
    isShared,
  };
}
