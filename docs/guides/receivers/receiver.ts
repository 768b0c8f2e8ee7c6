// A receiver of notifications, with nothing but Node: node receiver.ts PORT SECRET (22.18 or later; else compile it).
//
// It answers 401 to what is not signed with the secret, 409 to a sender that woke up late, and 204 to everything else.
// What came already is answered and not handled again.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";

const TOLERANCE_SECONDS = 300;
const BODY_BYTES_MAX = 24 * 1024 * 1024;

// In a service these are tables, changed in the transaction that handles the notification.
const seenIds = new Set<string>();
const newestEpochs = new Map<string, bigint>();

function handle(body: Buffer): void {
  console.log(body.toString());
}

function text(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === "string" ? value : "";
}

/** Standard Webhooks: one of the signatures is right, and the request is not an old one. */
function isSigned(key: Buffer, headers: IncomingHttpHeaders, body: Buffer): boolean {
  const timestamp = text(headers, "webhook-timestamp");
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) {
    return false;
  }
  const hmac = createHmac("sha256", key).update(`${text(headers, "webhook-id")}.${timestamp}.`).update(body);
  const right = Buffer.from(`v1,${hmac.digest("base64")}`);
  return text(headers, "webhook-signature")
    .split(" ")
    .map((one) => Buffer.from(one))
    .some((one) => one.length === right.length && timingSafeEqual(one, right));
}

function receive(headers: IncomingHttpHeaders, body: Buffer): number {
  const queue = text(headers, "redrive-queue");
  const epoch = text(headers, "redrive-epoch");
  if (queue && /^\d+$/.test(epoch)) {
    if (BigInt(epoch) < (newestEpochs.get(queue) ?? 0n)) return 409;
    newestEpochs.set(queue, BigInt(epoch));
  }
  const id = text(headers, "webhook-id");
  if (!seenIds.has(id)) {
    handle(body);
    seenIds.add(id);
  }
  return 204;
}

const [port = "9000", secret = ""] = process.argv.slice(2);
const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");

createServer(async (request, response) => {
  const parts: Buffer[] = [];
  let length = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      length += part.length;
      if (length > BODY_BYTES_MAX) {
        response.writeHead(413, { connection: "close" }).end();
        return;
      }
      parts.push(part);
    }
  } catch {
    return; // the sender went away
  }
  const body = Buffer.concat(parts);
  const status = request.method !== "POST" ? 405 : isSigned(key, request.headers, body) ? receive(request.headers, body) : 401;
  response.writeHead(status).end();
}).listen(Number(port), "127.0.0.1", () => console.error(`listening on http://127.0.0.1:${port}`));
