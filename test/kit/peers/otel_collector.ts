/** A real OpenTelemetry collector, which writes what it takes to a file. @module */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../../scripts/peers.ts";
import { freePorts } from "../process/ports.ts";
import { Process } from "../process/process.ts";

interface KeyValue {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** A span, metric or log record, as the collector writes it. */
export interface CollectedItem {
  readonly signal: "spans" | "metrics" | "logRecords";
  readonly resource: Readonly<Record<string, unknown>>;
  readonly item: Readonly<Record<string, unknown>>;
}

type Scope = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;
type Resource = { readonly resource: { readonly attributes: readonly KeyValue[] } };

const LISTS = {
  resourceSpans: ["scopeSpans", "spans"],
  resourceMetrics: ["scopeMetrics", "metrics"],
  resourceLogs: ["scopeLogs", "logRecords"],
} as const;

export class OtelCollector implements AsyncDisposable {
  readonly httpUrl: string;
  readonly grpcUrl: string;
  readonly #file: string;
  readonly #own: AsyncDisposableStack;

  private constructor(
    urls: readonly [http: string, grpc: string],
    file: string,
    own: AsyncDisposableStack,
  ) {
    [this.httpUrl, this.grpcUrl] = urls;
    this.#file = file;
    this.#own = own;
  }

  static async start(host: string): Promise<OtelCollector> {
    await using own = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "postern-otel-collector-"));
    own.defer(() => rm(directory, { recursive: true, force: true }));
    const [http = 0, grpc = 0] = await freePorts(host, 2);
    const path = join(directory, "taken.json");
    const config = join(directory, "collector.yaml");
    const pipeline = { receivers: ["otlp"], exporters: ["file"] };
    // JSON is YAML.
    await writeFile(
      config,
      JSON.stringify({
        receivers: {
          otlp: {
            protocols: {
              http: { endpoint: `${host}:${http}` },
              grpc: { endpoint: `${host}:${grpc}` },
            },
          },
        },
        exporters: { file: { path, flush_interval: "50ms" } },
        service: {
          telemetry: { metrics: { level: "none" } },
          pipelines: { traces: pipeline, metrics: pipeline, logs: pipeline },
        },
      }),
    );
    const started = own.use(new Process(peer("otel-collector"), ["--config", config]));
    await started.waitFor(/Everything is ready/, { timeoutMs: 30_000 });
    const urls = [`http://${host}:${http}`, `http://${host}:${grpc}`] as const;
    return new OtelCollector(urls, path, own.move());
  }

  async taken(): Promise<readonly CollectedItem[]> {
    const text = await readFile(this.#file, "utf8").catch(() => "");
    // The last line may still be written.
    const lines = text.split("\n").slice(0, -1);
    return lines.flatMap((line) => itemsOf(JSON.parse(line)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#own.disposeAsync();
  }
}

function itemsOf(
  written: Readonly<
    Record<string, readonly (Resource & Readonly<Record<string, readonly Scope[]>>)[]>
  >,
): readonly CollectedItem[] {
  return Object.entries(LISTS).flatMap(([resources, [scopes, signal]]) =>
    written[resources]?.flatMap((one) =>
      one[scopes]?.flatMap((scope) =>
        scope[signal]?.map((item) => ({
          signal,
          resource: attributesOf(one.resource.attributes),
          item,
        })) ?? []
      ) ?? []
    ) ?? []
  );
}

/** Values without their types. */
export function attributesOf(list: readonly KeyValue[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]]));
}
