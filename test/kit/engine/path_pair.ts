/** Two data paths as the sidecars of `web` and `db`, for stories that need no agent. @module */

import type { Log, LogRecord } from "../../../src/base/mod.ts";
import { createLog, systemClock } from "../../../src/base/mod.ts";
import type { Authority } from "../certs/authority.ts";
import type { DataPathOptions } from "../../../src/proxy/mod.ts";
import type { InboundPart, Snapshot } from "../../../src/snapshot/mod.ts";
import type { MeshSnapshot } from "./snapshots.ts";
import { createAuthority } from "../certs/certificates.ts";
import { startDataPath, type TestPath } from "./data_path.ts";
import { intention, snapshotOf, targetOf, type UpstreamOptions, withInbound } from "./snapshots.ts";

export interface PathPair extends AsyncDisposable {
  readonly ca: Authority;
  readonly db: TestPath;
  readonly web: TestPath;
  readonly dbSnapshot: MeshSnapshot;
  readonly webSnapshot: MeshSnapshot;
  /** Where the local app reaches db. */
  readonly port: number;
  /** Lines of both sidecars. */
  readonly lines: LogRecord[];
  /** The first line that `match` accepts, waiting for it. */
  line(match: (record: LogRecord) => boolean): Promise<LogRecord>;
}

export interface PathPairOptions {
  readonly localPort: number;
  readonly upstream?: Partial<UpstreamOptions>;
  readonly db?: Partial<DataPathOptions>;
  readonly web?: Partial<DataPathOptions>;
  readonly inbound?: Partial<InboundPart>;
  readonly intentions?: Snapshot["policy"]["intentions"];
  /** Ports that are tried besides db's own. */
  readonly morePorts?: readonly number[];
}

export async function startPathPair(options: PathPairOptions): Promise<PathPair> {
  const ca = createAuthority();
  const { log, lines, line } = recordingLog();
  const base = snapshotOf({
    ca,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: options.localPort },
    intentions: options.intentions ?? [intention("web", "allow")],
  });
  const dbSnapshot = withInbound(base, options.inbound ?? {});
  const db = await startDataPath(dbSnapshot, { log, ...options.db });
  const webSnapshot = snapshotOf({
    ca,
    service: "web",
    upstreams: [{ name: "db", ...options.upstream }],
    targets: [targetOf({
      name: "db",
      uris: [dbSnapshot.credentials.uri],
      ports: [...options.morePorts ?? [], db.port()],
    })],
  });
  const web = await startDataPath(webSnapshot, { log, ...options.web });
  return {
    ca,
    db,
    web,
    dbSnapshot,
    webSnapshot,
    port: options.upstream?.bind?.kind === "unix" ? 0 : web.port("db"),
    lines,
    line,
    async [Symbol.asyncDispose]() {
      await web[Symbol.asyncDispose]();
      await db[Symbol.asyncDispose]();
    },
  };
}

/** A log that keeps its records and lets a test wait for one. */
export function recordingLog(): {
  readonly log: Log;
  readonly lines: LogRecord[];
  line(match: (record: LogRecord) => boolean): Promise<LogRecord>;
} {
  const lines: LogRecord[] = [];
  let wake = () => {};
  const log = createLog({
    clock: systemClock,
    holder: { level: "debug" },
    write(record) {
      lines.push(record);
      wake();
    },
  });
  return {
    log,
    lines,
    async line(match) {
      for (;;) {
        const found = lines.find(match);
        if (found) return found;
        await new Promise<void>((resolve) => wake = resolve);
      }
    },
  };
}
