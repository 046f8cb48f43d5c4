/**
 * Requests and the leader: a default read or a write needs one, and breaks when it is lost meanwhile; a
 * stale read is answered by whichever server gets it. As measured on three servers of Consul 1.22.7.
 *
 * @module
 */

import { REFUSED_META } from "../http/call.ts";
import type { World } from "../http/call.ts";
import type { DevReply, DevRequest } from "../http/dev_exchange.ts";
import { route } from "../http/router.ts";

/** Of the agent API only what asks the servers' common state is led. */
const LED_AGENT_PATHS = /^\/v1\/agent\/connect\/(ca\/|authorize$)/;

/** Whether the server answers it from what is its own. */
export function isLocal({ path }: DevRequest): boolean {
  if (path.startsWith("/v1/status/")) return true;
  return path.startsWith("/v1/agent/") && !LED_AGENT_PATHS.test(path);
}

export function isStale({ method, query }: DevRequest): boolean {
  return method === "GET" && query.has("stale");
}

/**
 * Answers in `world`, unless `broken` calls first: then undefined, and what waited has stopped to. Returns
 * how to stop, like every `onX`.
 */
export async function answerUnless(
  world: World,
  request: DevRequest,
  onBroken: (fn: () => void) => () => void,
): Promise<DevReply | undefined> {
  const gone: (() => void)[] = [];
  let isGone = false;
  const leave = () => {
    isGone = true;
    for (const fn of gone.splice(0)) fn();
  };
  request.onGone(leave);
  let stop = () => {};
  const broken = new Promise<undefined>((resolve) => {
    stop = onBroken(() => {
      resolve(undefined);
      leave();
    });
  });
  const inner = { ...request, onGone: (fn: () => void) => isGone ? fn() : void gone.push(fn) };
  try {
    return await Promise.race([broken, route(world, inner)]);
  } finally {
    stop();
  }
}

/** What a read or a write is told while there is no leader. */
export function leaderless(
  { path, query, method }: DevRequest,
  detail: { readonly wasLed: boolean; readonly from: string },
): DevReply {
  const waits = query.has("index");
  const streams = /^\/v1\/health\/(connect|service)\//.test(path) && waits &&
    !query.has("merge-central-config");
  const headers = {
    "Content-Type": "text/plain; charset=utf-8",
    // Never an index to go on from, although it looks like one.
    ...waits && !streams ? REFUSED_META : {},
  };
  if (detail.wasLed && streams) {
    return { status: 503, headers, body: "error reading from server: EOF" };
  }
  const body = method === "GET"
    ? `rpc error getting client: failed to get conn: dial tcp ${detail.from}:0: ` +
      "connect: connection refused"
    : "No cluster leader";
  return { status: 500, headers, body };
}
