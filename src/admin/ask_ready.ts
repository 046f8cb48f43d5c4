/**
 * One question to the admin server of another process: is it ready?
 *
 * @module
 */

import { request } from "node:http";

export interface ReadyAnswer {
  readonly status: number;
  readonly body: string;
}

export interface AdminPlace {
  readonly host: string;
  readonly port: number;
}

/** How to ask: ready, or why not; rejects when there is no answer. */
export type AskReady = (admin: AdminPlace, timeoutMs: number) => Promise<ReadyAnswer>;

/** Of an answer that is not ours no more is kept. */
const BODY_LIMIT = 4_096;

export function askReady({ host, port }: AdminPlace, timeoutMs: number): Promise<ReadyAnswer> {
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, path: "/ready", agent: false }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => {
        body += chunk.slice(0, BODY_LIMIT - body.length);
      });
      reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
      reply.on("error", reject);
    });
    // For silence, wherever it begins: before the connection or within the answer.
    sent.setTimeout(timeoutMs, () => sent.destroy(new Error("no answer in time")));
    sent.on("error", reject);
    sent.end();
  });
}
