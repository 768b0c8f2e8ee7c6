// A publisher of notifications with amqplib: npm install amqplib @types/amqplib
import type { ChannelModel, ConfirmChannel, Message, Options } from "amqplib";

/** What `redrive queue-name --execution ID --url URL --json` prints. */
export interface Target {
  queue: string;
  exchange: string;
  wake_key: string;
  url: string;
  arguments: Record<string, unknown>;
}

const UNBOUND_MS_MAX = 10_000;
const PAUSE_MS = 100;
const CONFIRM_MS_MAX = 30_000;

export class Publisher {
  private readonly returned = new Set<string>();
  private last: Promise<unknown> = Promise.resolve();
  /** The id that is not confirmed: another one would come before it. */
  private unsettled: string | undefined;

  private constructor(
    private readonly connection: ChannelModel,
    private readonly channel: ConfirmChannel,
    private readonly target: Target,
  ) {
    channel.on("return", (message: Message) => this.returned.add(String(message.properties.messageId)));
    // The waiting confirm is refused, too: that is where it is told.
    channel.on("error", () => {});
  }

  static async open(connection: ChannelModel, target: Target): Promise<Publisher> {
    return new Publisher(connection, await connection.createConfirmChannel(), target);
  }

  /** Resolves after the broker's confirm. Rejected: publish again with the same id, for it may have arrived. */
  publish(execution: string, id: string, body: Buffer, contentType: string): Promise<void> {
    const options: Options.Publish = {
      messageId: id,
      type: "notification",
      contentType,
      timestamp: Math.floor(Date.now() / 1000),
      persistent: true,
      mandatory: true,
      headers: { "x-redrive-url": this.target.url, "x-redrive-execution": execution },
    };
    // One at a time keeps the order.
    const mine = this.last.catch(() => {}).then(() => this.placed(id, body, options));
    this.last = mine;
    return mine;
  }

  private async placed(id: string, body: Buffer, options: Options.Publish): Promise<void> {
    if (this.unsettled !== undefined && this.unsettled !== id) {
      throw new Error(`${id} is not published: ${this.unsettled} is not confirmed, publish that again first`);
    }
    this.unsettled = id;
    const giveUp = Date.now() + UNBOUND_MS_MAX;
    while (!(await this.confirmed(id, body, options))) {
      if (!(await this.exists())) {
        const { queue, exchange } = this.target;
        await this.channel.assertQueue(queue, { durable: true, arguments: this.target.arguments });
        await this.channel.bindQueue(queue, exchange, queue);
        continue;
      }
      if (Date.now() >= giveUp) {
        throw new Error(`${id} is not confirmed: the queue exists and takes no messages`);
      }
      this.channel.publish(this.target.exchange, this.target.wake_key, Buffer.from(this.target.queue));
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    this.unsettled = undefined;
  }

  /** Whether a queue has it; false: it was returned. A broker under an alarm says nothing: then it fails. */
  private confirmed(id: string, body: Buffer, options: Options.Publish): Promise<boolean> {
    this.returned.delete(id);
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${id} is not confirmed in time`)), CONFIRM_MS_MAX);
      this.channel.publish(this.target.exchange, this.target.queue, body, options, (refused) => {
        clearTimeout(late);
        // A return comes before its confirm.
        refused ? reject(new Error(`${id} is not confirmed: ${refused}`)) : resolve(!this.returned.has(id));
      });
    });
  }

  private async exists(): Promise<boolean> {
    const channel = await this.connection.createChannel();
    channel.on("error", () => {});
    try {
      await channel.checkQueue(this.target.queue);
    } catch (error) {
      if ((error as { code?: number }).code === 404) return false;
      throw error;
    }
    await channel.close();
    return true;
  }
}
