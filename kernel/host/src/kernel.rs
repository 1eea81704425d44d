//! The assembled kernel: its extensions, its agents, and the services around them.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use futures::future::BoxFuture;
use skillhost_agents::{AgentRuntime, RunGate, kernel_tool_table};
use skillhost_channels::ChannelHub;
use skillhost_command::add_command_tool;
use skillhost_control::{
    ConsoleAddress, LoadReport, ReloadOutcome, ScheduleRunOutcome, ScheduleSummary, ServerMessage,
};
use skillhost_core::{
    ExtensionHost, ExtensionHostOptions, HostServices, KernelError, StateObserver,
};
use skillhost_engine::{AgentTaskSubmitter, EngineOptions, TaskEngine};
use skillhost_events::EventBus;
use skillhost_home::{Home, SecretStore};
use skillhost_payload::{
    AgentAnswer, AgentTask, ButtonOutcome, CallError, ChannelCursor, ErrorKind, InboundOutcome,
    IncomingMessage, PressedButton, StoreTaskStepRequest, TaskProgressReport, ToolCall, ToolOutput,
};
use skillhost_programs::add_program_tools;
use skillhost_questions::QuestionTable;
use skillhost_scripts::add_script_tool;
use skillhost_tasks::open_home_queue;
use tokio_util::sync::CancellationToken;

use crate::agent_updates::reload_agent;
use crate::bus::BuiltinHandler;
use crate::channel_handler::ChannelEventHandler;
use crate::channels::KernelChannels;
use crate::config_watch::{ConfigWatch, POLL_INTERVAL};
use crate::conversations::MessageChannels;
use crate::kernel_start::KernelStart;
use crate::options::BootOptions;
use crate::question_handler::QuestionHandler;
use crate::restart::RestartCoordinator;
use crate::review_handler::{ProviderReviewLedger, ReviewHandler};
use crate::scheduler::ScheduleService;
use crate::serving::EventDelivery;
use crate::task_ends::TaskEndHandler;
use crate::user_message::{UserMessageHandler, UserMessages};

/// A web console, which another crate implements: the kernel does not depend on a web server.
pub trait ConsoleServer: Send + Sync {
    /// Starts the listener unless it runs, until the kernel shuts down. Returns its address.
    ///
    /// # Errors
    /// The settings are not valid, or the address cannot be used.
    fn start(&self, kernel: Kernel) -> BoxFuture<'_, Result<String, CallError>>;

    /// Starts the listener unless it runs, and returns an address with a token for one login.
    ///
    /// # Errors
    /// As for [`ConsoleServer::start`].
    fn open(&self, kernel: Kernel) -> BoxFuture<'_, Result<ConsoleAddress, CallError>>;
}

/// A running kernel.
///
/// Cheap to clone. [`Kernel::shutdown`] stops it in order; a drop does not.
#[derive(Clone)]
pub struct Kernel {
    shared: Arc<KernelShared>,
}

struct KernelShared {
    agents: AgentRuntime,
    delivery: Arc<EventDelivery>,
    tasks: Arc<TaskEngine>,
    schedules: ScheduleService,
    restarts: Arc<RestartCoordinator>,
    questions: Arc<QuestionTable>,
    reviews: Arc<ProviderReviewLedger>,
    conversations: Arc<MessageChannels>,
    channels: Arc<ChannelHub>,
    messages: UserMessages,
    /// Cancelled when the kernel shuts down.
    stopping: CancellationToken,
    /// Cancelled when a client requests the shutdown.
    stop_requested: CancellationToken,
    started: KernelStart,
    config_watch: Arc<ConfigWatch>,
    console: OnceLock<Arc<dyn ConsoleServer>>,
}

impl Kernel {
    /// Connects the parts of a kernel; loads no extension.
    pub(crate) fn assemble(options: BootOptions, secrets: SecretStore) -> Self {
        let gate = Arc::new(RunGate::default());
        let supervised = options.supervised;
        let restarts = RestartCoordinator::new(&options.home, supervised, Arc::clone(&gate));
        let restarts = Arc::new(restarts);
        let host = Arc::new(ExtensionHost::new(ExtensionHostOptions {
            home: options.home,
            settings: options.settings,
            settings_file: options.settings_file,
            installation: options.installation,
            bundled: options.bundled,
            limits: options.limits,
            loaders: options.loaders,
            secrets,
        }));
        let agents = AgentRuntime::new(
            Arc::clone(&host),
            options.models,
            options.builder,
            Arc::clone(&gate),
        );
        let queue = open_home_queue(host.home(), &host.settings());
        let questions = Arc::new(QuestionTable::new(queue.clone()));
        let live_limit = host.settings().tasks.live_limit().unwrap_or(host.limits().approval);
        let conversations = Arc::new(MessageChannels::new(Arc::clone(&questions), live_limit));
        let reviews = Arc::new(ProviderReviewLedger::new(Arc::clone(&host)));
        let (channels, environment) = KernelChannels::create_hub(
            &agents,
            queue.clone(),
            Arc::clone(&questions),
            Arc::clone(&reviews),
        );
        let handler = UserMessageHandler::new(
            agents.clone(),
            Arc::clone(&conversations),
            Arc::clone(&questions),
            Arc::clone(&restarts),
            Arc::clone(&channels),
        );
        let handler = Arc::new(handler);
        let closed = QuestionHandler::new(Arc::clone(&questions), Arc::clone(&handler));
        let proposals = ReviewHandler::new(Arc::clone(&questions), Arc::clone(&reviews));
        let task_ends = Arc::new(TaskEndHandler::default());
        let mut builtin: Vec<Arc<dyn BuiltinHandler>> = vec![
            handler,
            Arc::new(closed),
            Arc::new(proposals),
            Arc::clone(&task_ends) as Arc<dyn BuiltinHandler>,
        ];
        builtin.extend(ChannelEventHandler::create_all(&channels, &host));
        let submitter = AgentTaskSubmitter::new(agents.downgrade(), queue.clone());
        let delivery = EventDelivery::new(agents.clone(), submitter.clone(), builtin);
        let delivery = Arc::new(delivery);
        environment.set_delivery(&delivery);
        let serving = Arc::downgrade(&delivery);
        let tasks = Arc::new(TaskEngine::new(EngineOptions {
            agents: agents.clone(),
            queue,
            channels: Arc::clone(&channels),
            gate,
            can_claim: Box::new(move || serving.upgrade().is_some_and(|it| it.is_prepared())),
        }));
        let mut tools = kernel_tool_table(&agents);
        add_command_tool(&mut tools, host.home());
        add_script_tool(&mut tools, &host);
        tasks.add_tools(&mut tools);
        host.set_builtin_tools(tools);
        add_program_tools(&agents);
        task_ends.set_notices(tasks.end_notices());
        let schedules = ScheduleService::new(agents.clone(), submitter, Arc::downgrade(&tasks));
        let messages =
            UserMessages::new(agents.clone(), Arc::clone(&delivery), Arc::clone(&conversations));
        let config_watch = ConfigWatch::new(agents.clone(), supervised);
        let shared = Arc::new(KernelShared {
            agents,
            delivery,
            tasks,
            schedules,
            restarts,
            questions,
            reviews,
            conversations,
            channels,
            messages,
            stopping: CancellationToken::new(),
            stop_requested: CancellationToken::new(),
            started: KernelStart::now(supervised),
            config_watch: Arc::new(config_watch),
            console: OnceLock::new(),
        });
        let services: Weak<KernelShared> = Arc::downgrade(&shared);
        let scheduler = Arc::downgrade(shared.schedules.scheduler());
        let delivery = Arc::downgrade(&shared.delivery);
        // In this order: the times of jobs first, then the subscribers.
        let observers: Vec<Weak<dyn StateObserver>> = vec![scheduler, delivery];
        host.connect_parts(services, observers);
        Self { shared }
    }

    /// Returns the extensions of this kernel.
    #[must_use]
    pub fn extensions(&self) -> &Arc<ExtensionHost> {
        self.shared.agents.extensions()
    }

    /// Returns the agents of this kernel, and the calls of all tools.
    #[must_use]
    pub fn agents(&self) -> &AgentRuntime {
        &self.shared.agents
    }

    /// Returns the home of this kernel.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.extensions().home()
    }

    /// Returns the report of the start, updated by later reloads.
    #[must_use]
    pub fn report(&self) -> Arc<LoadReport> {
        self.extensions().report()
    }

    /// Returns the events of the home.
    #[must_use]
    pub fn events(&self) -> &EventBus {
        self.extensions().events()
    }

    /// Returns the channels of this kernel.
    #[must_use]
    pub fn channels(&self) -> &ChannelHub {
        &self.shared.channels
    }

    pub(crate) fn messages(&self) -> &UserMessages {
        &self.shared.messages
    }

    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.shared.stopping
    }

    pub(crate) fn config_watch(&self) -> &ConfigWatch {
        &self.shared.config_watch
    }

    /// Follows settings, secrets, agents and approvals on disk until the shutdown: changes that can
    /// be applied are, and the others are reported. A second call has no effect.
    pub fn follow_configuration(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.config_watch().start().await;
            let watch = Arc::clone(&self.shared.config_watch);
            let polls = async move {
                loop {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    watch.poll().await;
                }
            };
            tokio::spawn(self.stop_token().clone().run_until_cancelled_owned(polls));
        })
    }

    /// Reloads an extension or an agent; see [`AgentRuntime::reload`].
    pub(crate) async fn reload(&self, id: &str) -> Result<ReloadOutcome, KernelError> {
        match reload_agent(self.agents(), id).await {
            Some(reloaded) => reloaded,
            None => self.agents().reload(id).await,
        }
    }

    pub(crate) fn started(&self) -> &KernelStart {
        &self.shared.started
    }

    pub(crate) fn message_channels(&self) -> &MessageChannels {
        &self.shared.conversations
    }

    pub(crate) fn questions(&self) -> &QuestionTable {
        &self.shared.questions
    }

    pub(crate) fn reviews(&self) -> &ProviderReviewLedger {
        &self.shared.reviews
    }

    /// Sets the web console, which is started on demand; a second call has no effect.
    pub fn set_console(&self, console: Arc<dyn ConsoleServer>) {
        // The first one may already listen.
        let _ = self.shared.console.set(console);
    }

    pub(crate) fn console(&self) -> Result<&dyn ConsoleServer, CallError> {
        let console = self.shared.console.get().map(|console| &**console);
        console.ok_or_else(|| {
            CallError::new(ErrorKind::Unavailable, "this program has no web console")
        })
    }

    /// Requests the shutdown, which [`Kernel::wait_for_stop_request`] reports.
    pub(crate) fn request_stop(&self) {
        self.shared.stop_requested.cancel();
    }

    /// Waits until a client requests the shutdown of this kernel.
    pub fn wait_for_stop_request(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.shared.stop_requested.cancelled().await })
    }

    /// Starts the delivery of events, first of those that an earlier process left, and the task
    /// engine; a second call has no effect. If the journal cannot be used, it is tried again until it can; until then
    /// [`Kernel::delivery_problem`] has the reason. Ends with [`Kernel::shutdown`].
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](skillhost_payload::ErrorKind) where another process delivers the events of this
    /// home.
    pub fn start_event_delivery(&self) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            self.shared.delivery.start_delivery().await?;
            if let Err(error) = self.shared.questions.withdraw_leftovers().await {
                tracing::error!(%error, "questions of an earlier kernel could not be withdrawn");
            }
            if let Err(error) = self.shared.channels.load_home_name().await {
                tracing::error!(%error, "deliveries of a shared queue wait for the next start");
            }
            self.shared.tasks.start();
            Ok(())
        })
    }

    /// Returns the task engine.
    #[must_use]
    pub fn tasks(&self) -> &TaskEngine {
        &self.shared.tasks
    }

    /// Returns the reason why delivery fails, or `None` while it works and in a process that does
    /// not deliver.
    #[must_use]
    pub fn delivery_problem(&self) -> Option<CallError> {
        self.shared.delivery.delivery_problem()
    }

    /// Starts the scheduler for the loaded extensions, until the shutdown; a second call has no
    /// effect. Runs missed since the last time are counted and reported.
    pub fn start_schedules(&self) {
        self.shared.schedules.start_scheduler();
    }

    /// Lists every schedule with its last outcome.
    pub fn list_schedules(&self) -> BoxFuture<'_, Vec<ScheduleSummary>> {
        Box::pin(async move { self.shared.schedules.list_schedules().await })
    }

    /// Runs a schedule now, independent of its times, and awaits it. Its outcome is stored and
    /// published as that of any run.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar ids; [`KernelError::Call`] of the kind
    /// [`ErrorKind::Conflict`](skillhost_payload::ErrorKind) while a run is active, and with the error of a
    /// failed run.
    pub fn run_schedule<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<ScheduleRunOutcome, KernelError>> {
        Box::pin(async move { self.shared.schedules.run_schedule(id).await })
    }

    /// Requests a restart: this process shuts down after draining, and its supervisor starts it
    /// again.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](skillhost_payload::ErrorKind) without a supervisor, `Conflict` while a
    /// restart is in progress, `Io` if the reason cannot be stored.
    pub fn request_restart<'a>(
        &'a self,
        reason: &'a str,
        by: &'a str,
    ) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(
            async move { self.shared.restarts.request_restart(self.events(), reason, by).await },
        )
    }

    /// Waits until a restart is requested.
    pub fn wait_for_restart_request(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.restarts.wait_for_request().await;
        })
    }

    /// Publishes the outcome of the previous kernel's restart; call it once everything is loaded
    /// and before runs resume.
    pub fn publish_restart_outcome(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.restarts.publish_outcome(self.events(), &self.report()).await;
        })
    }

    /// Drains all runs before the shutdown. Runs of user messages stop before their next model
    /// request, and resume in the next kernel; after a requested restart they have the time of
    /// [`KernelLimits::rest`](skillhost_core::KernelLimits), else, as all others, that of `drain`.
    pub fn drain_runs(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.schedules.scheduler().stop_accepting();
            let limits = self.extensions().limits();
            let again = self.shared.restarts.drain_runs(self.agents().run_sessions(), limits).await;
            self.shared.conversations.close_all(&ServerMessage::ShuttingDown { again });
        })
    }

    /// Stops scheduled jobs and event deliveries, then every extension in reverse load order, one
    /// after the other: service, calls in flight, `stop`, runtime. The dependencies of an extension
    /// are available until its own end.
    pub fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.stopping.cancel();
            let host = self.extensions();
            self.shared.schedules.scheduler().shutdown(host.limits().drain).await;
            // Before the delivery, whose lock permits to claim.
            self.shared.tasks.stop(host.limits().drain).await;
            self.shared.delivery.stop_delivery().await;
            host.shutdown().await;
        })
    }
}

#[async_trait]
impl HostServices for KernelShared {
    async fn call_tool(&self, call: ToolCall) -> Result<ToolOutput, CallError> {
        let called = self.agents.invoke_tool(call.context, &call.name, call.arguments.get());
        Ok(called.await?)
    }

    async fn run_agent(&self, task: AgentTask) -> Result<AgentAnswer, CallError> {
        self.agents.run_task(task).await
    }

    async fn store_task_step(
        &self,
        extension: &str,
        request: StoreTaskStepRequest,
    ) -> Result<(), CallError> {
        self.tasks.store_task_step(extension, request).await
    }

    async fn report_task_progress(
        &self,
        extension: &str,
        report: TaskProgressReport,
    ) -> Result<(), CallError> {
        self.tasks.report_task_progress(extension, report).await
    }

    async fn receive_message(
        &self,
        channel: &str,
        message: IncomingMessage,
    ) -> Result<InboundOutcome, CallError> {
        self.channels.receive_message(channel, message).await
    }

    async fn press_button(
        &self,
        channel: &str,
        button: PressedButton,
    ) -> Result<ButtonOutcome, CallError> {
        self.channels.press_button(channel, &button).await
    }

    async fn load_channel_cursor(&self, channel: &str) -> Result<ChannelCursor, CallError> {
        // Of several kernels of a home, the one that delivers events receives messages.
        if !self.delivery.is_prepared() {
            let message = "this kernel receives no messages of channels";
            return Err(CallError::new(ErrorKind::Unavailable, message));
        }
        self.channels.load_cursor(channel).await
    }

    async fn store_channel_cursor(
        &self,
        channel: &str,
        cursor: ChannelCursor,
    ) -> Result<(), CallError> {
        self.channels.store_cursor(channel, cursor).await
    }

    async fn request_restart(&self, reason: &str, by: &str) -> Result<(), CallError> {
        self.restarts.request_restart(self.agents.extensions().events(), reason, by).await
    }

    fn delivery_problem(&self) -> Option<CallError> {
        self.delivery.delivery_problem()
    }
}
