/**
 * Requests and the leader: a default read or a write needs one, and breaks when it is lost meanwhile; any
 * server answers a stale read. As measured on three servers of Consul 1.22.7.
 *
 * @module
 */

import { REFUSED_HEADERS } from "../acl/guard.ts";

/** In the agent API only the paths that read the servers' common state go to the leader. */
const LED_AGENT_PATHS = /^\/v1\/agent\/connect\/(ca\/|authorize$)/;

/** Whether the server answers it from data of its own. */
export function isLocal({ url }: Request): boolean {
  const { pathname } = new URL(url);
  if (pathname.startsWith("/v1/status/")) return true;
  return pathname.startsWith("/v1/agent/") && !LED_AGENT_PATHS.test(pathname);
}

export function isStale({ method, url }: Request): boolean {
  return method === "GET" && new URL(url).searchParams.has("stale");
}

/**
 * The answer, unless `onBroken` calls first: then undefined, and the request stops waiting. `onBroken`
 * returns how to stop, like every `onX`.
 */
export async function answerUnless(
  answer: (request: Request) => Response | Promise<Response>,
  request: Request,
  onBroken: (fn: () => void) => () => void,
): Promise<Response | undefined> {
  const gone = new AbortController();
  const signal = AbortSignal.any([request.signal, gone.signal]);
  let stop = () => {};
  const broken = new Promise<undefined>((resolve) => {
    stop = onBroken(() => {
      resolve(undefined);
      gone.abort();
    });
  });
  try {
    return await Promise.race([broken, answer(new Request(request, { signal }))]);
  } finally {
    stop();
  }
}

/** The answer to a read or a write while there is no leader. */
export function leaderless(
  { method, url }: Request,
  { wasLed, from }: { readonly wasLed: boolean; readonly from: string },
): Response {
  const { pathname, searchParams } = new URL(url);
  const waits = searchParams.has("index");
  const streams = /^\/v1\/health\/(connect|service)\//.test(pathname) && waits &&
    !searchParams.has("merge-central-config");
  if (wasLed && streams) return new Response("error reading from server: EOF", { status: 503 });
  const text = method === "GET"
    ? `rpc error getting client: failed to get conn: dial tcp ${from}:0: connect: connection refused`
    : "No cluster leader";
  return new Response(text, { status: 500, headers: waits && !streams ? REFUSED_HEADERS : {} });
}
