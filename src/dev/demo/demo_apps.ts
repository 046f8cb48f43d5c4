/** The applications of the demonstration mesh, and requests that probe them. @module */

import { systemClock } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { ApiListener } from "../http/listener.ts";

const HOST = "127.0.0.1";
const PROBE_TIMEOUT_MS = 900;

interface DemoApp {
  readonly port: number;
  /** Every connection breaks. */
  stop(): void;
}

export async function startApp(name: string, port = 0): Promise<DemoApp> {
  let answered = 0;
  const app = new ApiListener({
    acceptor: runtimeEngine(),
    clock: systemClock,
    host: HOST,
    fetch({ method, url, headers }) {
      const { pathname, search } = new URL(url);
      const caller = callerIn(headers.get("x-forwarded-client-cert") ?? "");
      return new Response(
        `hello${caller} from ${name}: ${method} ${pathname}${search}, answer ${++answered}\n`,
      );
    },
    onError: () => {},
  });
  await app.start(port);
  return app;
}

/** The caller that the sidecar has proven. */
function callerIn(clientCert: string): string {
  const [, service] = /URI=[^,;]*\/svc\/([\w-]+)/.exec(clientCert) ?? [];
  return service === undefined ? "" : ` ${service}`;
}

/** Ports on which nothing listens at the moment. */
export async function freePorts(count: number): Promise<readonly number[]> {
  const engine = runtimeEngine();
  const listeners = await Promise.all(Array.from({ length: count }, () => {
    const address = { kind: "tcp", host: HOST, port: 0 } as const;
    return engine.listen({ address, reusePort: false }, (connection) => connection.reset());
  }));
  for (const listener of listeners) listener.close();
  return listeners.map(({ address }) => address.kind === "tcp" ? address.port : 0);
}

export interface Probe {
  /** 0: there was no answer. */
  readonly status: number;
  readonly text: string;
}

/** Makes one request and describes the answer for people. Never rejects. */
export async function probe(url: string, method = "GET"): Promise<Probe> {
  const begun = systemClock.monotonic();
  try {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const reply = await fetch(url, { method, signal, headers: { connection: "close" } });
    await reply.arrayBuffer();
    const ms = (systemClock.monotonic() - begun).toFixed(1);
    return { status: reply.status, text: `${reply.status} in ${ms} ms` };
  } catch {
    return { status: 0, text: "no answer" };
  }
}
