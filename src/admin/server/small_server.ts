/**
 * A server of a few paths beside the admin server, for orchestrators and metric collectors.
 *
 * @module
 */

import { type Clock, formatAddress, type Log, messageOf, ProxyError } from "../../base/mod.ts";
import { refuseWebPage } from "../../http/mod.ts";
import {
  type Listening,
  reasonOf,
  type ServedRequest,
  type SmallServerTls,
  startHttpServer,
} from "./http_server.ts";
import { machineNames } from "./guard.ts";

export interface SmallAnswer {
  readonly status: number;
  readonly body: string;
  /** Default: plain text. */
  readonly type?: string;
}

export interface SmallServerOptions {
  readonly host: string;
  readonly port: number;
  /** In the log: `lifecycle server`. */
  readonly name: string;
  /** The flag that gave its address, for errors: `-graceful-port`. */
  readonly flag: string;
  readonly clock: Clock;
  /**
   * All answers may be read by everyone on the network, as metrics may. Beyond loopback any host name is
   * accepted then: collectors use names of a machine that the machine itself does not know.
   */
  readonly isPublic?: boolean;
  /** Absent: plain text. */
  readonly tls?: SmallServerTls;
  /** `target`: path and query. `undefined`: nothing is there. */
  answer(method: string, target: string): Promise<SmallAnswer | undefined>;
}

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i;

/** Throws `listen_failed` when the address cannot be bound. */
export async function startSmallServer(options: SmallServerOptions, log: Log): Promise<Listening> {
  const { host, port, name, flag, clock, tls } = options;
  const names = options.isPublic && !LOOPBACK_HOST.test(host) ? undefined : machineNames();
  const answer = async (request: ServedRequest) => {
    const refused = whyRefused(request, options, names);
    const { status, body, type = "text/plain; charset=utf-8" } = refused === undefined
      ? await answerTo(request, options)
      : { status: 403, body: `Cannot answer this request: ${refused}\n` };
    const headers = {
      "content-type": type,
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    };
    return { status, headers, body };
  };
  try {
    return await startHttpServer({ host, port, name, clock, tls, answer }, log);
  } catch (error) {
    const address = formatAddress({ kind: "tcp", host, port });
    throw new ProxyError(
      "listen_failed",
      `Cannot listen on ${flag} ${address}: ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

/** `names`: accepted host names; `undefined`: all. */
function whyRefused(
  { headers, isAuthorized }: ServedRequest,
  { host, name }: SmallServerOptions,
  names: readonly string[] | undefined,
): string | undefined {
  if (!isAuthorized) return "it shows no certificate of our CA";
  // A web page can make a browser send any of these requests, and must not stop a proxy.
  const site = headers["sec-fetch-site"];
  if (headers.origin !== undefined || site !== undefined && site !== "none") {
    return "it comes from a web page";
  }
  // A page under a name that resolves to this machine has the same origin for its browser.
  const request = { host: headers.host, origin: undefined };
  return names && refuseWebPage(request, { boundHost: host, server: name, names });
}

async function answerTo(
  { method, target }: ServedRequest,
  { answer }: SmallServerOptions,
): Promise<SmallAnswer> {
  try {
    return await answer(method, target) ?? { status: 404, body: "There is nothing here.\n" };
  } catch (error) {
    return { status: 500, body: `Cannot answer: ${messageOf(error)}\n` };
  }
}
