import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { startEcho, waitForEcho } from "../kit/echo.ts";
import { registerService, serve } from "../kit/mesh.ts";
import { posternSidecar } from "../kit/sidecars.ts";
import { startPostern } from "../kit/postern.ts";
import { freePort } from "../kit/ports.ts";

/** Everything that `web` with an upstream `db` needs, rule by rule. */
const RULES = {
  "own service": 'service "web" { policy = "write" }',
  "own sidecar": 'service "web-sidecar-proxy" { policy = "write" }',
  "upstream": 'service_prefix "db" { policy = "read" }',
  "nodes": 'node_prefix "" { policy = "read" }',
};

test("tokens that lack a right are told which one, on what", async (t) => {
  await using server = await startConsul({ acl: true });
  await using echo = await startEcho({ host: server.host });
  await using _db = await serve(server, echo, {
    name: "db",
    token: await server.serviceToken("db"),
  });
  await server.intention("web", "db", "allow");
  const upstream = { name: "db", host: server.host, port: await freePort(server.host) };
  await registerService(server, {
    ...{ name: "web", host: server.host, port: await freePort(server.host) },
    sidecarPort: await freePort(server.host),
    upstreams: [upstream],
  });
  const without = (...names: readonly string[]) =>
    Object.entries(RULES).filter(([name]) => !names.includes(name)).map(([, rule]) => rule)
      .join("\n");

  for (
    const [title, rules, named] of [
      ["no write on the service", without("own service"), /service:write\W+on\W+"?web"?\b/],
      [
        "only read on the service",
        `${without("own service")}\nservice "web" { policy = "read" }`,
        /service:write\W+on\W+"?web"?\b/,
      ],
      [
        "nothing on the sidecar",
        without("own sidecar"),
        // In Consul's own words: what it says about a registration that may not be read.
        /lacks permission 'service:read' on \\?"web-sidecar-proxy/,
      ],
      ["no read on an upstream", without("upstream"), /service:read\W+on\W+"?db"?\b/],
      ["no read on nodes", without("nodes"), /node:read/],
    ] as const
  ) {
    await t.test(title, async () => {
      await using postern = startPostern(
        ["proxy", "-sidecar-for", "web-1", "-admin-bind", "127.0.0.1:0"],
        {
          env: {
            CONSUL_HTTP_ADDR: server.address,
            CONSUL_HTTP_TOKEN: await server.tokenWithRules(rules),
          },
        },
      );
      // Whether it goes on waiting for the right or gives up: both are told here.
      postern.expectEnd();
      await postern.process.waitFor(named, { timeoutMs: 60_000 });
    });
  }

  await t.test("an unknown token is called that", async () => {
    await using postern = startPostern(
      ["proxy", "-sidecar-for", "web-1", "-admin-bind", "127.0.0.1:0"],
      {
        env: {
          CONSUL_HTTP_ADDR: server.address,
          CONSUL_HTTP_TOKEN: "11111111-2222-3333-4444-555555555555",
        },
      },
    );
    postern.expectEnd();
    await postern.process.waitFor(/ACL not found/, { timeoutMs: 60_000 });
  });

  await t.test("all of them together are enough", async () => {
    await using _web = await posternSidecar(server, {
      serviceId: "web-1",
      token: await server.tokenWithRules(Object.values(RULES).join("\n")),
    });
    await waitForEcho(upstream);
  });
});
