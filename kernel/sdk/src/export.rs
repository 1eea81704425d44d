//! Exports an author's type as the symbols of the library.

use std::sync::Arc;

use abi_stable::sabi_trait::TD_Opaque;
use abi_stable::std_types::{ROption, RString};
use skillhost_contract::abi::{
    ContextAbi_TO, ContextObject, ExtensionAbi_TO, ExtensionInstance, FfiResult, HostObject,
    ServiceAbi_TO, ServiceObject, ToolAbi_TO, ToolObject,
};
use skillhost_payload::{BuildInfo, ErrorKind, ExtensionInit};

use crate::bridge;
use crate::channel::ChannelInterface;
use crate::context::ExtensionContext;
use crate::effect::EffectInterface;
use crate::embedding::EmbeddingInterface;
use crate::error::ExtensionError;
use crate::events::EventInterface;
use crate::guard::{ExtensionShared, GuardedObject, catch_panic};
use crate::interface::{Interface, SkillInterface};
use crate::link::HostLink;
use crate::linkage::Linkage;
use crate::provider::{
    ChannelProvider, ContextProvider, EffectProvider, EmbeddingProvider, EventProvider, Extension,
    SchedulerProvider, ServiceProvider, SkillProvider, TaskProvider, ToolProvider,
};
use crate::scheduler::SchedulerInterface;
use crate::task_interface::TaskInterface;

/// A builder that collects the capabilities declared by the export macro.
pub struct CapabilityBuilder<E> {
    extension: Arc<E>,
    shared: Arc<ExtensionShared>,
    tools: ROption<ToolObject>,
    context: ROption<ContextObject>,
    service: ROption<ServiceObject>,
    interfaces: Vec<Arc<dyn Interface>>,
    /// The connection through which running tasks store their steps.
    link: HostLink,
}

impl<E: Extension> CapabilityBuilder<E> {
    fn guarded_object(&self) -> GuardedObject<E> {
        GuardedObject::new(Arc::clone(&self.extension), Arc::clone(&self.shared))
    }

    /// Declares [`ToolProvider`].
    pub fn tools(&mut self)
    where
        E: ToolProvider,
    {
        self.tools = ROption::RSome(ToolAbi_TO::from_value(self.guarded_object(), TD_Opaque));
    }

    /// Declares [`ContextProvider`].
    pub fn context(&mut self)
    where
        E: ContextProvider,
    {
        self.context = ROption::RSome(ContextAbi_TO::from_value(self.guarded_object(), TD_Opaque));
    }

    /// Declares [`ServiceProvider`].
    pub fn service(&mut self)
    where
        E: ServiceProvider,
    {
        self.service = ROption::RSome(ServiceAbi_TO::from_value(self.guarded_object(), TD_Opaque));
    }

    /// Declares [`SkillProvider`].
    pub fn skills(&mut self)
    where
        E: SkillProvider,
    {
        self.interfaces.push(Arc::new(SkillInterface(Arc::clone(&self.extension))));
    }

    /// Declares [`EffectProvider`].
    pub fn effects(&mut self)
    where
        E: EffectProvider,
    {
        self.interfaces.push(Arc::new(EffectInterface(Arc::clone(&self.extension))));
    }

    /// Declares [`EmbeddingProvider`].
    pub fn embeddings(&mut self)
    where
        E: EmbeddingProvider,
    {
        self.interfaces.push(Arc::new(EmbeddingInterface(Arc::clone(&self.extension))));
    }

    /// Declares [`EventProvider`].
    pub fn events(&mut self)
    where
        E: EventProvider,
    {
        self.interfaces.push(Arc::new(EventInterface(Arc::clone(&self.extension))));
    }

    /// Declares [`SchedulerProvider`].
    pub fn scheduler(&mut self)
    where
        E: SchedulerProvider,
    {
        self.interfaces.push(Arc::new(SchedulerInterface(Arc::clone(&self.extension))));
    }

    /// Declares [`ChannelProvider`].
    pub fn channel(&mut self)
    where
        E: ChannelProvider,
    {
        self.interfaces.push(Arc::new(ChannelInterface(Arc::clone(&self.extension))));
    }

    /// Declares [`TaskProvider`].
    pub fn tasks(&mut self)
    where
        E: TaskProvider,
    {
        let (provider, link) = (Arc::clone(&self.extension), self.link.clone());
        self.interfaces.push(Arc::new(TaskInterface { provider, link }));
    }

    fn finish(self) -> ExtensionInstance {
        // The kernel reads the names once and never calls an interface that is not listed.
        let names = self.interfaces.iter().map(|i| RString::from(i.name())).collect();
        // Only the generic call needs the interfaces; the other objects share just the extension.
        let extension =
            GuardedObject::new(self.extension, self.shared).with_interfaces(self.interfaces);
        ExtensionInstance {
            extension: ExtensionAbi_TO::from_value(extension, TD_Opaque),
            tools: self.tools,
            context: self.context,
            service: self.service,
            interfaces: names,
        }
    }
}

/// Creates the extension: its runtime, its log bridge, the author's value and its objects.
pub fn create_extension<E: Extension>(
    linkage: Linkage,
    host: HostObject,
    init: &str,
    declare: impl FnOnce(&mut CapabilityBuilder<E>),
) -> FfiResult<ExtensionInstance> {
    catch_panic(|| {
        let init: ExtensionInit = serde_json::from_str(init)
            .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))?;
        let span = bridge::extension_span(linkage, &init.id);
        let (shared, link) = ExtensionShared::new(&init.id, host, &span)?;
        // Before `new`, so that its log events and panics already reach the kernel. The events of a
        // bundled extension reach it without a bridge, which would send the kernel's own events to
        // the kernel again.
        if linkage == Linkage::Library {
            bridge::install_log_bridge(link.clone());
        }
        let _span = span.entered();
        let cx = ExtensionContext::new(init, link.clone(), shared.cancel().clone());
        let extension = {
            // `new` is synchronous but may spawn tasks, which requires a runtime context.
            let _entered = shared.enter();
            Arc::new(E::new(cx)?)
        };
        let mut builder = CapabilityBuilder {
            extension,
            shared,
            tools: ROption::RNone,
            context: ROption::RNone,
            service: ROption::RNone,
            interfaces: Vec::new(),
            link,
        };
        declare(&mut builder);
        Ok(builder.finish())
    })
}

/// Returns the build information of the library as JSON.
#[must_use]
pub fn build_info(package: &str, version: &str) -> RString {
    let info = BuildInfo { package: package.to_owned(), version: version.to_owned() };
    serde_json::to_string(&info).unwrap_or_default().into()
}

/// Exports a type as the extension of this library, with the capabilities it has.
///
/// The capabilities are `tools`, `effects`, `context`, `service`, `skills`, `embeddings`, `events`,
/// `scheduler`, `tasks` and `channel`; each needs the provider trait of that name. Written once per library:
///
/// ```text
/// export_extension!(MyExtension: tools, context, service, skills);
/// ```
///
/// A library built with `panic = "abort"` fails to compile, because a panic could not be contained.
#[macro_export]
macro_rules! export_extension {
    ($extension:ty $(: $($capability:ident),+ $(,)?)?) => {
        #[cfg(panic = "abort")]
        compile_error!("an extension must be built with panic = \"unwind\"");

        #[allow(unsafe_code, reason = "exported symbols are unsafe attributes")]
        const _: () = {
            use $crate::__private as sdk;

            $crate::__define_module!(sdk::Linkage::Library, $extension $(: $($capability),+)?);

            extern "C" fn erased() -> sdk::RootModuleResult {
                sdk::__call_root_module_loader(module)
            }

            // SAFETY: the contract owns the names; a library exports them once.
            #[unsafe(export_name = "skillhost_contract_version")]
            static VERSION: u32 = sdk::CONTRACT.pack();

            // SAFETY: as above; the header comes from abi_stable's own constructor.
            #[unsafe(export_name = "skillhost_extension_root")]
            static ROOT: sdk::LibHeader = unsafe {
                sdk::LibHeader::from_constructor::<sdk::ExtensionModuleRef>(
                    erased,
                    sdk::CheckTypeLayout::Yes,
                )
            };
        };
    };
}

/// Defines `module`, the root module of an extension; used by the macros that export it.
#[doc(hidden)]
#[macro_export]
macro_rules! __define_module {
    ($linkage:expr, $extension:ty $(: $($capability:ident),+)?) => {
        extern "C" fn build_info() -> $crate::__private::RString {
            $crate::__private::build_info(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
        }

        extern "C" fn create(
            host: $crate::__private::HostObject,
            init: $crate::__private::RString,
        ) -> $crate::__private::FfiResult<$crate::__private::ExtensionInstance> {
            use $crate::__private as sdk;
            sdk::create_extension::<$extension>($linkage, host, &init, |_builder| {
                $($( _builder.$capability(); )+)?
            })
        }

        fn module() -> $crate::__private::ExtensionModuleRef {
            use $crate::__private::PrefixTypeTrait as _;
            $crate::__private::ExtensionModule { build_info, create }.leak_into_prefix()
        }
    };
}
