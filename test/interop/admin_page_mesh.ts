/**
 * A mesh with everything that the page at `/` shows: `orders`, which two services may call and a third may
 * not, and its upstreams: `payments` with routes and splits over two subsets, `stock` with an instance that
 * fails, and `mail` without an instance.
 *
 * @module
 */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { DevMesh } from "../kit/mesh/dev_mesh.ts";
import type { Postern } from "../kit/process/postern.ts";
import type { Place } from "../kit/wire/echo.ts";

const CALLERS = ["checkout", "mobile", "batch"];
const PATHS = ["/orders", "/orders/17", "/orders/17/items", "/health"];
/** Requests of one caller: this long after the end of the one before. */
const PAUSE_MS = 60;

export interface ShopMesh extends AsyncDisposable {
  readonly orders: Postern;
  /** A caller, to which nothing is wrong. */
  readonly checkout: Postern;
  /** Denies requests from `source` to `orders`. */
  deny(source: string): Promise<void>;
}

/** Starts it all, with traffic that goes on until the end. */
export async function startShopMesh(): Promise<ShopMesh> {
  await using own = new AsyncDisposableStack();
  const mesh = own.use(await DevMesh.start());
  for (const name of [...CALLERS, "orders", "payments", "stock", "mail"]) {
    await mesh.configEntry({ Kind: "service-defaults", Name: name, Protocol: "http" });
  }
  await mesh.configEntry({
    Kind: "service-resolver",
    Name: "payments",
    DefaultSubset: "v1",
    Subsets: {
      v1: { Filter: "Service.Meta.version == v1" },
      v2: { Filter: "Service.Meta.version == v2" },
    },
  });
  await mesh.configEntry({
    Kind: "service-splitter",
    Name: "payments",
    Splits: [{ Weight: 80, ServiceSubset: "v1" }, { Weight: 20, ServiceSubset: "v2" }],
  });
  await mesh.configEntry({
    Kind: "service-router",
    Name: "payments",
    Routes: [{
      Match: { HTTP: { PathPrefix: "/health", Methods: ["GET"] } },
      Destination: { ServiceSubset: "v1" },
    }],
  });
  await mesh.put("/v1/connect/intentions/exact?source=mobile&destination=orders", {
    Permissions: [{ Action: "allow", HTTP: { PathPrefix: "/", Methods: ["GET"] } }],
  });
  await mesh.intention("checkout", "orders", "allow");
  await mesh.intention("batch", "orders", "deny");
  for (const name of ["payments", "stock", "mail"]) await mesh.intention("orders", name, "allow");
  const upstreams = await Promise.all(
    ["payments", "stock", "mail"].map(async (name) => {
      return { name, port: (await mesh.place()).port };
    }),
  );
  const portOf = (name: string) => upstreams.find((one) => one.name === name)?.port ?? 0;
  const calls = ["payments", "payments", "stock"].map((name) =>
    `http://${mesh.host}:${portOf(name)}`
  );
  let asked = 0;
  const serve = async (answer: () => Promise<number>) => {
    const server = createServer(async (_request, response) => {
      response.writeHead(await answer()).end("done\n");
    });
    await new Promise<void>((resolve) => server.listen(0, mesh.host, resolve));
    own.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    return (server.address() as AddressInfo).port;
  };
  const late = (ms: number) => new Promise<number>((resolve) => setTimeout(resolve, ms, 200));
  const services = [
    ...["v1", "v2"].map((version) => ({
      name: "payments",
      id: `payments-${version}`,
      meta: { version },
      answer: () => late(version === "v1" ? 3 : 25),
    })),
    { name: "stock", id: "stock-1", answer: () => late(1) },
    { name: "stock", id: "stock-2", answer: () => Promise.resolve(503) },
    {
      name: "orders",
      upstreams,
      async answer() {
        const path = PATHS[++asked % PATHS.length] ?? "";
        const reply = await fetch(`${calls[asked % calls.length]}${path}`);
        await reply.arrayBuffer();
        return reply.status;
      },
    },
  ];
  const callers = await Promise.all(CALLERS.map(async (name) => {
    const place = await mesh.place();
    const upstreams = [{ name: "orders", port: place.port }];
    return { place, sidecar: own.use(await mesh.serve({ name, upstreams })) };
  }));
  const peers = await Promise.all(callers.map(({ sidecar }) => sidecar.adminAddress()));
  const sidecars = await Promise.all(services.map(async ({ answer, ...service }) => {
    const args = service.name === "orders" ? ["-admin-peers", peers.join()] : [];
    return own.use(await mesh.serve({ ...service, port: await serve(answer) }, { args }));
  }));
  const ended = new AbortController();
  const running = Promise.all(
    callers.map(({ place }, at) => call(place, { at, signal: ended.signal })),
  );
  const stack = own.move();
  const [orders, checkout] = [sidecars.at(-1), callers[0]?.sidecar];
  if (!orders || !checkout) throw new Error("There is no such sidecar");
  return {
    orders,
    checkout,
    deny: (source) => mesh.intention(source, "orders", "deny"),
    async [Symbol.asyncDispose]() {
      ended.abort();
      await running;
      await stack.disposeAsync();
    },
  };
}

/** The first caller asks all the time, the others less often. */
async function call(
  { host, port }: Place,
  { at, signal }: { readonly at: number; readonly signal: AbortSignal },
): Promise<void> {
  for (let asked = 0; !signal.aborted; asked++) {
    // The second caller may read only.
    const method = at === 1 && asked % 9 === 0 ? "POST" : "GET";
    const path = PATHS[asked % PATHS.length] ?? "/";
    const reply = await fetch(`http://${host}:${port}${path}`, { method, signal }).catch(() =>
      undefined
    );
    await reply?.arrayBuffer().catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (1 + 4 * at)));
  }
}
