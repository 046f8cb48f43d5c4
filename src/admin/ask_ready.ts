/**
 * One question to the admin server of another process: is it ready?
 *
 * @module
 */

import { request } from "node:http";

/** One question: ready, or why not; rejects when there is no answer. */
export type AskReady = (
  admin: { readonly host: string; readonly port: number },
  timeoutMs: number,
) => Promise<{ readonly status: number; readonly body: string }>;

/** Of an answer that is not ours no more is kept. */
const BODY_LIMIT = 4_096;

export const askReady: AskReady = ({ host, port }, timeoutMs) =>
  new Promise((resolve, reject) => {
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
