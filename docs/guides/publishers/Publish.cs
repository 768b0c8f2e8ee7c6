// A publisher of notifications with RabbitMQ.Client 7, to one queue.
using System.Diagnostics;
using System.Text;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

/// <summary>What `redrive queue-name --execution ID --url URL --json` prints.</summary>
public sealed record Target(
    string Queue, string Exchange, string WakeKey, string Url, Dictionary<string, object?> Arguments);

public sealed class Publisher : IAsyncDisposable
{
    private static readonly TimeSpan UnboundMax = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(100);

    private readonly IConnection connection;
    private readonly IChannel channel;
    private readonly Target target;
    private readonly SemaphoreSlim one = new(1, 1);
    /// <summary>The id that is not confirmed: another one would come before it.</summary>
    private string? unsettled;

    private Publisher(IConnection connection, IChannel channel, Target target) =>
        (this.connection, this.channel, this.target) = (connection, channel, target);

    public static async Task<Publisher> OpenAsync(IConnection connection, Target target)
    {
        // A publish completes with its confirm, and throws when it is returned or refused.
        var options = new CreateChannelOptions(
            publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true);
        return new Publisher(connection, await connection.CreateChannelAsync(options), target);
    }

    /// <summary>Completes after the broker's confirm. Otherwise publish again with the same id: it may have arrived.</summary>
    public async Task PublishAsync(
        string execution, string id, string contentType, ReadOnlyMemory<byte> body, CancellationToken stop)
    {
        var properties = new BasicProperties
        {
            MessageId = id,
            Type = "notification",
            ContentType = contentType,
            Timestamp = new AmqpTimestamp(DateTimeOffset.UtcNow.ToUnixTimeSeconds()),
            Persistent = true,
            Headers = new Dictionary<string, object?>
            {
                ["x-redrive-url"] = target.Url,
                ["x-redrive-execution"] = execution,
            },
        };
        // One at a time keeps the order.
        await one.WaitAsync(stop);
        try
        {
            if (unsettled is not null && unsettled != id)
            {
                throw new IOException($"{id} is not published: {unsettled} is not confirmed, publish that again first");
            }
            unsettled = id;
            var since = Stopwatch.StartNew();
            while (!await ConfirmedAsync(properties, body, stop))
            {
                if (!await ExistsAsync(stop))
                {
                    await channel.QueueDeclareAsync(
                        target.Queue, durable: true, exclusive: false, autoDelete: false, target.Arguments,
                        cancellationToken: stop);
                    await channel.QueueBindAsync(target.Queue, target.Exchange, target.Queue, cancellationToken: stop);
                    continue;
                }
                if (since.Elapsed >= UnboundMax)
                {
                    throw new IOException($"{id} is not confirmed: the queue exists and takes no messages");
                }
                await channel.BasicPublishAsync(
                    target.Exchange, target.WakeKey, Encoding.UTF8.GetBytes(target.Queue), stop);
                await Task.Delay(Pause, stop);
            }
            unsettled = null;
        }
        finally
        {
            one.Release();
        }
    }

    private async Task<bool> ConfirmedAsync(
        BasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken stop)
    {
        try
        {
            await channel.BasicPublishAsync(target.Exchange, target.Queue, mandatory: true, properties, body, stop);
            return true;
        }
        catch (PublishException refused) when (refused.IsReturn)
        {
            return false;
        }
    }

    // On a channel of its own: a refusal closes it.
    private async Task<bool> ExistsAsync(CancellationToken stop)
    {
        await using var spare = await connection.CreateChannelAsync(cancellationToken: stop);
        try
        {
            await spare.QueueDeclarePassiveAsync(target.Queue, stop);
            return true;
        }
        catch (OperationInterruptedException closed) when (closed.ShutdownReason?.ReplyCode == 404)
        {
            return false;
        }
    }

    public ValueTask DisposeAsync() => channel.DisposeAsync();
}
