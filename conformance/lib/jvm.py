"""How the stock tools of Kafka are started: the classes of its shell scripts, quick to start."""

import functools
import pathlib
import subprocess

LIB = pathlib.Path(__file__).resolve().parent
TOOL_CLASSES = {
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "kafka.admin.ConsumerGroupCommand",
    "kafka-console-consumer": "kafka.tools.ConsoleConsumer",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


def command(main: str, class_path: str, arguments: list[str], level: str = "WARN") -> list[str]:
    """The command line of a Java program that logs from a level on."""
    return [
        "java", "-cp", class_path, "-Xmx512M", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        f"-Dlog4j.configuration=file:{LIB}/log4j.properties", f"-Dkaas.log.level={level}", main, *arguments,
    ]


def tool(name: str, class_path: str, arguments: list[str], level: str = "WARN") -> list[str]:
    """The command line of a stock tool."""
    return command(TOOL_CLASSES[name], class_path, arguments, level)


@functools.cache
def class_path() -> str:
    """The jars of Kafka 3.7.2."""
    return subprocess.run([LIB / "jars.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
