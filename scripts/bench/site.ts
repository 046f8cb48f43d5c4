/**
 * The parts that all pairs of a benchmark share: a directory, certificates of one mesh, and the nginx
 * behind them that answers and counts.
 *
 * @module
 */

import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import { freePorts } from "../../test/kit/process/ports.ts";
import { eventually } from "../../test/kit/process/process.ts";
import { peer } from "../peers.ts";
import { Program } from "./program.ts";

/** The size of the body that measures the cost of a body of ordinary size. */
const MEGABYTE = 1_000_000;
/** A gRPC message of five bytes. */
const GRPC_MESSAGE = Uint8Array.of(0, 0, 0, 0, 5, 0x68, 0x65, 0x6c, 0x6c, 0x6f);
/** Large enough that a connection's start and end do not show, small enough for every page cache. */
const BIG_FILE_BYTES = 64 * 1024 * 1024;
export const HOST = "127.0.0.1";

export interface Credentials {
  readonly certFile: string;
  readonly keyFile: string;
  readonly uri: string;
}

export interface Site {
  readonly directory: string;
  readonly trustDomain: string;
  readonly rootsFile: string;
  /** The calling service and the called one. */
  readonly web: Credentials;
  readonly db: Credentials;
  readonly backend: Backend;
  close(): Promise<void>;
}

export interface Backend {
  readonly port: number;
  /** The same over HTTP/2 without TLS. */
  readonly http2Port: number;
  /** Requests answered and connections open now. */
  counts(): Promise<{ readonly requests: number; readonly active: number }>;
  /** Everything it has written so far. */
  sentBytes(): number;
}

export async function createSite(): Promise<Site> {
  const directory = mkdtempSync(join(tmpdir(), "postern-bench-"));
  const authority = createAuthority();
  const rootsFile = join(directory, "roots.pem");
  writeFileSync(rootsFile, authority.rootPem);
  const credentialsOf = (service: string): Credentials => {
    const leaf = authority.issueLeaf({ service });
    const certFile = join(directory, `${service}.pem`);
    const keyFile = join(directory, `${service}.key`);
    writeFileSync(certFile, leaf.certPem);
    writeFileSync(keyFile, leaf.keyPem);
    return { certFile, keyFile, uri: leaf.uri };
  };
  const web = credentialsOf("web");
  const db = credentialsOf("db");
  const { backend, program } = await startBackend(directory);
  return {
    directory,
    trustDomain: TRUST_DOMAIN,
    rootsFile,
    web,
    db,
    backend,
    async close() {
      await program.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function startBackend(directory: string): Promise<{ backend: Backend; program: Program }> {
  const [port = 0, http2Port = 0] = await freePorts(HOST, 2);
  for (const [name, bytes] of [["big", BIG_FILE_BYTES], ["mb", MEGABYTE]] as const) {
    writeFileSync(join(directory, name), "");
    truncateSync(join(directory, name), bytes);
  }
  writeFileSync(join(directory, "grpc"), GRPC_MESSAGE);
  const program = startNginx(
    directory,
    "backend",
    `
    http {
      access_log off;
      keepalive_timeout 1h;
      keepalive_requests 1000000000;
      client_body_timeout 1h;
      sendfile on;
      tcp_nodelay on;
      server {
        listen ${HOST}:${port} backlog=8192;
        listen ${HOST}:${http2Port} http2 backlog=8192;
        http2_max_concurrent_streams 1024;
        root ${directory};
        location = /small { return 200 "${"x".repeat(100)}"; }
        location = /tiny { return 200 "${"x".repeat(25)}"; }
        location = /big { }
        location = /mb { }
        # A response that is never over.
        location = /hold { alias ${directory}/mb; limit_rate 1; }
        location = /grpc {
          default_type application/grpc;
          add_trailer grpc-status 0;
          # A file answers no POST but this way.
          error_page 405 =200 /grpc;
        }
        location = /counts { stub_status; }
      }
    }`,
  );
  const backend: Backend = {
    port,
    http2Port,
    async counts() {
      const text = await get(port, "/counts");
      const active = /Active connections: (\d+)/.exec(text)?.[1];
      const requests = /^ \d+ \d+ (\d+)/m.exec(text)?.[1];
      if (!active || !requests) throw new Error(`Cannot read nginx's counts: ${text}`);
      return { requests: Number(requests), active: Number(active) };
    },
    sentBytes() {
      const found = /^wchar: (\d+)$/m.exec(readFileSync(`/proc/${program.pid}/io`, "utf8"));
      if (!found) throw new Error("Cannot read how much nginx has sent");
      return Number(found[1]);
    },
  };
  await eventually("nginx answers", async () => (await backend.counts()).requests > 0);
  return { backend, program };
}

/** An nginx of one process that counts like one worker. */
export function startNginx(directory: string, name: string, sections: string): Program {
  const file = join(directory, `${name}.nginx.conf`);
  writeFileSync(
    file,
    `load_module /usr/lib/nginx/modules/ngx_stream_module.so;
    daemon off;
    master_process off;
    pid ${join(directory, `${name}.pid`)};
    error_log stderr error;
    worker_rlimit_nofile 18000;
    events { worker_connections 18000; multi_accept off; }
    ${sections}`,
  );
  return new Program(peer("nginx"), ["-p", directory, "-c", file], {
    logFile: join(directory, `${name}.log`),
  });
}

export function get(port: number, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: HOST, port, path, agent: false }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
      reply.on("end", () => {
        if (reply.statusCode === 200) resolve(body);
        else reject(new Error(`Cannot get ${path}: status ${reply.statusCode}`));
      });
      reply.on("error", reject);
    });
    sent.setTimeout(5_000, () => sent.destroy(new Error(`Cannot get ${path}: no answer in 5 s`)));
    sent.on("error", reject);
    sent.end();
  });
}
