/** Tracing is central configuration as for Envoy, which a sidecar follows live. */

import assert from "node:assert/strict";
import test from "node:test";
import { startTestCollector } from "../kit/wire/collector.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

interface ZipkinSpan {
  readonly traceId: string;
  readonly id: string;
  readonly parentId?: string;
  readonly kind: string;
  readonly localEndpoint: { readonly serviceName: string };
}

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

export function tracing(agents: Agents): void {
  test("envoy_tracing_json sends the spans of both sidecars to a Zipkin collector", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using collector = await startTestCollector({ host: mesh.host });
    await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
    const heads: string[] = [];
    await using app = await startRawOrigin(({ head }) => {
      heads.push(head);
      return answerOf("hello");
    }, { host: mesh.host });
    await using _db = await mesh.serve({ name: "db", port: app.port });
    const upstream = { name: "db", ...await mesh.place() };
    await using _web = await mesh.serve({ name: "web", upstreams: [upstream] });
    const socketAddress = { address: mesh.host, port_value: collector.port };
    const endpoint = { address: { socket_address: socketAddress } };
    const cluster = {
      name: "zipkin",
      type: "STATIC",
      load_assignment: { cluster_name: "zipkin", endpoints: [{ lb_endpoints: [{ endpoint }] }] },
    };
    const tracer = {
      name: "envoy.tracers.zipkin",
      typedConfig: {
        "@type": "type.googleapis.com/envoy.config.trace.v3.ZipkinConfig",
        collector_cluster: "zipkin",
        collector_endpoint: "/api/v2/spans",
        collector_endpoint_version: "HTTP_JSON",
        shared_span_context: false,
      },
    };
    await mesh.configEntry({
      Kind: "proxy-defaults",
      Name: "global",
      Config: {
        envoy_tracing_json: JSON.stringify({ http: tracer }),
        envoy_extra_static_clusters_json: JSON.stringify(cluster),
      },
    });
    const spans = () => collector.taken.flatMap(({ body }) => body as readonly ZipkinSpan[]);
    /** Spans of one request: each sidecar follows the configuration on its own. */
    const pair = () => {
      for (const db of spans()) {
        const web = spans().find(({ id }) => id === db.parentId);
        if (web) return { web, db };
      }
      return undefined;
    };
    const url = `http://${upstream.host}:${upstream.port}/`;
    const { web, db } = await eventually("a span of each sidecar", async () => {
      // Without these fields nothing is sampled, as Consul configures Envoy.
      const headers = { "x-b3-traceid": TRACE, "x-b3-spanid": PARENT, "x-b3-sampled": "1" };
      const reply = await fetch(url, { headers }).catch(() => undefined);
      await reply?.text();
      return pair();
    });
    assert.deepEqual([web.traceId, web.parentId, web.kind], [TRACE, PARENT, "CLIENT"]);
    assert.deepEqual([db.traceId, db.kind], [TRACE, "SERVER"]);
    const services = [web, db].map(({ localEndpoint }) => localEndpoint.serviceName);
    assert.deepEqual(services, ["web", "db"]);
    await (await fetch(url)).text();
    assert.match(heads.at(-1) ?? "", /^x-b3-sampled: 0\r?$/im);
    assert.ok(spans().every(({ traceId }) => traceId === TRACE));
  });
}
